# HYDRA_SANITIZE=address|thread instruments all of our code (libtorch itself is not instrumented).
set(HYDRA_SANITIZE "" CACHE STRING "Sanitizer: empty, address (with undefined) or thread")
if(HYDRA_SANITIZE STREQUAL "address")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=vptr> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=address,undefined)
elseif(HYDRA_SANITIZE STREQUAL "thread")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread>)
  add_link_options(-fsanitize=thread)
elseif(NOT HYDRA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "HYDRA_SANITIZE is '${HYDRA_SANITIZE}'; expected address, thread or nothing")
endif()
