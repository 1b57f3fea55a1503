# HYDRA_SANITIZE=address|thread instruments all of our code (libtorch itself is not instrumented).
set(HYDRA_SANITIZE "" CACHE STRING "Sanitizer: empty, address (with undefined) or thread")
if(HYDRA_SANITIZE STREQUAL "address")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=vptr> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=address,undefined)
  # g++ 12 sees uninitialized values in <regex> once it is instrumented.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
elseif(HYDRA_SANITIZE STREQUAL "thread")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread>)
  add_link_options(-fsanitize=thread)
elseif(NOT HYDRA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "HYDRA_SANITIZE is '${HYDRA_SANITIZE}'; expected address, thread or nothing")
endif()
if(HYDRA_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
