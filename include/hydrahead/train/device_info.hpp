#pragma once
// What a run is told about its device: name, memory, peak arithmetic rate, and a wait for its queue.

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace hydra::train {

struct DeviceInfo {
  std::string name;               // "NVIDIA H200", or the CPU's model name
  std::int64_t memory_bytes = 0;  // of the device; CPU: of the machine
  double peak_flops = 0.0;        // dense bf16, from the vendor's data sheet; 0: unknown
};
DeviceInfo device_info(const c10::Device& device);

// Waits until everything queued on the device is done; nothing to do on the CPU.
void synchronize(const c10::Device& device);

// The most memory held at a time since the last reset: allocated tensors on CUDA, resident pages of the process on the
// CPU (since its start: the kernel's counter is not reset).
std::int64_t peak_memory(const c10::Device& device);
void reset_peak_memory(const c10::Device& device);

}  // namespace hydra::train
