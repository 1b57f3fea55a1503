# Warnings of our own targets; third-party headers are SYSTEM and stay silent.
add_library(hydra_warnings INTERFACE)
target_compile_options(hydra_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${HYDRA_WERROR}>>:-Werror>)
# GCC 12 sees an overlap in "literal" + std::string where there is none (its PR 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(hydra_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
