# Finds torch (the PyPI wheel) without find_package(Torch), and the third-party libraries as static
# archives or headers, so that one binary plus torch's shared libraries runs on another Linux.

# --- torch: HYDRA_SITE_PACKAGES (cache or environment), else the set-up's virtual environment -------------
set(HYDRA_SITE_PACKAGES "$ENV{HYDRA_SITE_PACKAGES}" CACHE PATH "site-packages folder that holds torch 2.11.0")
if(NOT HYDRA_SITE_PACKAGES)
  file(GLOB _venv_site ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages)
  foreach(_site IN LISTS _venv_site)
    if(EXISTS ${_site}/torch/version.py)
      set(HYDRA_SITE_PACKAGES ${_site} CACHE PATH "" FORCE)
    endif()
  endforeach()
endif()
if(NOT EXISTS "${HYDRA_SITE_PACKAGES}/torch/version.py")
  message(FATAL_ERROR "torch was not found (HYDRA_SITE_PACKAGES='${HYDRA_SITE_PACKAGES}'): run tools/setup, "
    "or pass -DHYDRA_SITE_PACKAGES=<the site-packages folder that holds torch 2.11.0>")
endif()
file(READ ${HYDRA_SITE_PACKAGES}/torch/version.py _torch_version)
string(REGEX MATCH "__version__ = '([^']+)'" _ "${_torch_version}")
set(HYDRA_TORCH_VERSION ${CMAKE_MATCH_1})
if(NOT HYDRA_TORCH_VERSION MATCHES "^2\\.11\\.0")
  message(FATAL_ERROR "torch in ${HYDRA_SITE_PACKAGES} is ${HYDRA_TORCH_VERSION}; expected 2.11.0")
endif()
file(STRINGS ${HYDRA_SITE_PACKAGES}/torch/share/cmake/Torch/TorchConfig.cmake _abi REGEX "_GLIBCXX_USE_CXX11_ABI=")
if(_abi AND NOT _abi MATCHES "_GLIBCXX_USE_CXX11_ABI=1")
  message(FATAL_ERROR "this torch uses the old C++ string ABI (${_abi}); expected _GLIBCXX_USE_CXX11_ABI=1")
endif()

set(_torch_lib ${HYDRA_SITE_PACKAGES}/torch/lib)
set(_nvidia ${HYDRA_SITE_PACKAGES}/nvidia)
set(_cuda_wheel_lib ${_nvidia}/cu13/lib)
add_library(torch_wheel INTERFACE)
target_include_directories(torch_wheel SYSTEM INTERFACE
  ${HYDRA_SITE_PACKAGES}/torch/include ${HYDRA_SITE_PACKAGES}/torch/include/torch/csrc/api/include)
target_compile_definitions(torch_wheel INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
# libtorch exports parts of std::filesystem from its own build (remove_all among them, which crashes in other programs):
# libstdc++ stands first, so that ours are bound to it.
# --no-as-needed: without it libtorch_cuda is dropped and no CUDA back end registers.
target_link_libraries(torch_wheel INTERFACE
  stdc++ -Wl,--no-as-needed ${_torch_lib}/libtorch.so ${_torch_lib}/libtorch_cpu.so ${_torch_lib}/libc10.so
  ${_torch_lib}/libgomp.so.1)
if(HYDRA_CUDA)
  file(STRINGS ${_nvidia}/nccl/include/nccl.h _nccl_code REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]*NCCL_(MAJOR|MINOR|PATCH) ([0-9]+)[^;]*" "\\2" _nccl "${_nccl_code}")
  string(REPLACE ";" "." HYDRA_NCCL_VERSION "${_nccl}")
  if(NOT HYDRA_NCCL_VERSION STREQUAL "2.28.9")
    message(FATAL_ERROR "NCCL headers in ${_nvidia}/nccl are ${HYDRA_NCCL_VERSION}; torch 2.11.0 pins 2.28.9, "
      "and c10d's class layouts depend on it")
  endif()
  target_include_directories(torch_wheel SYSTEM INTERFACE ${_nvidia}/cu13/include ${_nvidia}/nccl/include)
  target_compile_definitions(torch_wheel INTERFACE USE_C10D_NCCL)
  target_link_libraries(torch_wheel INTERFACE ${_torch_lib}/libtorch_cuda.so ${_torch_lib}/libc10_cuda.so
    ${_cuda_wheel_lib}/libcudart.so.13 ${_nvidia}/nccl/lib/libnccl.so.2)
endif()
target_link_libraries(torch_wheel INTERFACE -Wl,--as-needed)
# Symbols that libtorch_cuda needs from the other CUDA wheels are found through its own RUNPATH.
target_link_options(torch_wheel INTERFACE -Wl,--allow-shlib-undefined
  -Wl,-rpath,${_torch_lib}:${_cuda_wheel_lib}:${_nvidia}/nccl/lib)

# --- third-party archives and headers ---------------------------------------------------------------------
find_package(Threads REQUIRED)
function(hydra_archive target archive header)
  # The archive if the distribution has one, so that the binary runs elsewhere; else its shared library.
  string(REGEX REPLACE "^lib(.*)\\.a$" "\\1" _shared ${archive})
  find_library(HYDRA_${target}_ARCHIVE NAMES ${archive} ${_shared} REQUIRED)
  find_path(HYDRA_${target}_INCLUDE NAMES ${header} REQUIRED)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${HYDRA_${target}_INCLUDE})
  target_link_libraries(${target} INTERFACE ${HYDRA_${target}_ARCHIVE})
endfunction()
hydra_archive(yaml_cpp_static libyaml-cpp.a yaml-cpp/yaml.h)
hydra_archive(pcre2_static libpcre2-8.a pcre2.h)
hydra_archive(utf8proc_static libutf8proc.a utf8proc.h)
target_compile_definitions(utf8proc_static INTERFACE UTF8PROC_STATIC)
hydra_archive(lzma_static liblzma.a lzma.h)
hydra_archive(zlib_static libz.a zlib.h)
hydra_archive(zstd_static libzstd.a zstd.h)
hydra_archive(crypto_static libcrypto.a openssl/evp.h)
target_link_libraries(crypto_static INTERFACE ${CMAKE_DL_LIBS} Threads::Threads)

function(hydra_headers target header)
  find_path(HYDRA_${target}_INCLUDE NAMES ${header} REQUIRED)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${HYDRA_${target}_INCLUDE})
endfunction()
hydra_headers(nlohmann_headers nlohmann/json.hpp)
hydra_headers(cli11_headers CLI/CLI.hpp)
# spdlog on its distribution's fmt lives in src/base/log.cpp alone: torch ships another fmt.
hydra_headers(spdlog_headers spdlog/spdlog.h)
target_compile_definitions(spdlog_headers INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)

find_program(HYDRA_CCACHE ccache)
if(HYDRA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HYDRA_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${HYDRA_CCACHE})
  # ccache needs this to hash GCC's precompiled headers; tools/setup sets the matching sloppiness.
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>)
endif()
find_program(HYDRA_MOLD mold)
if(HYDRA_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-fuse-ld=mold)
endif()
