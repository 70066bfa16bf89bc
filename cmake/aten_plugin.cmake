# The plugin that runs operators without a kernel by PyTorch's own library (docs/partitioning.md): built over the
# libraries and headers that come with a Python's torch, for programs that find them where they are now. Nothing else of
# npusim needs or sees them.
set(NPUSIM_ATEN_PLUGIN "AUTO" CACHE STRING "the plugin over PyTorch: ON, OFF, or AUTO: where a Python has torch")
set_property(CACHE NPUSIM_ATEN_PLUGIN PROPERTY STRINGS AUTO ON OFF)
if(NOT NPUSIM_ATEN_PLUGIN OR NPUSIM_SANITIZE)
  return()
endif()
if(NOT Python_EXECUTABLE)
  find_program(NPUSIM_TORCH_PYTHON python3)
else()
  set(NPUSIM_TORCH_PYTHON ${Python_EXECUTABLE})
endif()
# Its folder and version, without importing it, which takes seconds.
execute_process(
  COMMAND ${NPUSIM_TORCH_PYTHON} -c
          "import importlib.util, os; print(os.path.dirname(importlib.util.find_spec('torch').origin), end='')"
  RESULT_VARIABLE status OUTPUT_VARIABLE torch ERROR_QUIET)
if(status EQUAL 0 AND EXISTS ${torch}/include/ATen/ATen.h AND EXISTS ${torch}/lib/libtorch_cpu.so)
  add_library(npusim_aten_plugin MODULE ${CMAKE_SOURCE_DIR}/src/aten/torch/plugin.cpp)
  target_include_directories(npusim_aten_plugin PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(npusim_aten_plugin SYSTEM PRIVATE ${torch}/include)
  target_link_libraries(npusim_aten_plugin PRIVATE ${torch}/lib/libtorch_cpu.so ${torch}/lib/libc10.so)
  set_target_properties(npusim_aten_plugin PROPERTIES OUTPUT_NAME npusim_aten INSTALL_RPATH_USE_LINK_PATH ON
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/aten)
  install(TARGETS npusim_aten_plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT aten)
  message(STATUS "ATen plugin: over ${torch}")
elseif(NPUSIM_ATEN_PLUGIN STREQUAL "AUTO")
  message(STATUS "ATen plugin: not built: ${NPUSIM_TORCH_PYTHON} has no torch with its headers")
else()
  message(FATAL_ERROR "ATen plugin: ${NPUSIM_TORCH_PYTHON} has no torch with its headers")
endif()
