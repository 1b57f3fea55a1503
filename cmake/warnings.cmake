# Warnings of our own targets; third-party headers are SYSTEM and stay silent.
add_library(hydra_warnings INTERFACE)
target_compile_options(hydra_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${HYDRA_WERROR}>>:-Werror>)
