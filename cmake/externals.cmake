# Libraries without a package file that is good for npusim: of npusim's build, and of who links its static libraries.
if(NOT TARGET DNNL::dnnl)
  # oneDNN for CPU contractions. Debian's own CMake file asks for OpenCL, which the CPU engine does not need.
  find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)       # SIMD with run-time dispatch
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)  # content hashes and checksums
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)  # the tokenizer's split pattern
