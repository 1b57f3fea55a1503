#include "hydrahead/train/device_info.hpp"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <utility>

#if HYDRA_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace hydra::train {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      return colon == std::string::npos ? line : line.substr(colon + 2);
    }
  }
  return "CPU";
}

#if HYDRA_CUDA
// Dense bf16 tensor-core rates of the data sheets.
double data_sheet_flops(const std::string& name) {
  constexpr std::array<std::pair<const char*, double>, 5> known{
      {{"H200", 989e12}, {"GH200", 989e12}, {"H100 PCIe", 756e12}, {"H100", 989e12}, {"A100", 312e12}}};
  for (const auto& [part, flops] : known) {
    if (name.find(part) != std::string::npos) {
      return flops;
    }
  }
  return 0.0;
}
#endif

}  // namespace

DeviceInfo device_info(const c10::Device& device) {
#if HYDRA_CUDA
  if (device.is_cuda()) {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device.index());
    return {properties->name, static_cast<std::int64_t>(properties->totalGlobalMem),
            data_sheet_flops(properties->name)};
  }
#endif
  static_cast<void>(device);
  return {cpu_name(), static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE), 0.0};
}

void synchronize(const c10::Device& device) {
  if (!device.is_cpu()) {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }
}

std::int64_t peak_memory(const c10::Device& device) {
  if (device.is_cpu()) {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  }
  constexpr std::size_t aggregate = 0;  // the sum over the allocator's pools
  return at::getDeviceAllocator(device.type())->getDeviceStats(device.index()).allocated_bytes[aggregate].peak;
}

void reset_peak_memory(const c10::Device& device) {
  if (!device.is_cpu()) {
    at::empty({1}, at::TensorOptions(device));  // the allocator knows a device only after its first tensor
    at::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  }
}

}  // namespace hydra::train
