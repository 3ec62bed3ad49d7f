# A runtime with nothing but what the programs of SIXFOLD_KERNELS_FROM need: `sixfold kernels` lists that in a header,
# tables are filtered by it (sixfold/base/selection.h), and the linker drops what they do not name.
if(NOT SIXFOLD_TOOL)
  message(FATAL_ERROR "SIXFOLD_KERNELS_FROM needs SIXFOLD_TOOL, the path of a sixfold that was built in full")
endif()
set(SELECTION ${GENERATED}/selection.h)
file(MAKE_DIRECTORY ${GENERATED})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SIXFOLD_KERNELS_FROM} ${SIXFOLD_TOOL})
execute_process(COMMAND ${SIXFOLD_TOOL} kernels ${SIXFOLD_KERNELS_FROM} -o ${SELECTION} COMMAND_ERROR_IS_FATAL ANY)

# What is not compiled at all: rules of families that no program uses, and the emulator, which is for hosts.
file(STRINGS ${SELECTION} kept_families REGEX "kKeptFamilies")
file(GLOB families RELATIVE ${CMAKE_SOURCE_DIR}/sixfold/ops ${CMAKE_SOURCE_DIR}/sixfold/ops/*/aten.cpp)
foreach(file ${families})
  get_filename_component(family ${file} DIRECTORY)
  if(NOT kept_families MATCHES "\"${family}\"")
    list(FILTER RUNTIME_SOURCES EXCLUDE REGEX "sixfold/ops/${family}/aten")
  endif()
endforeach()
list(FILTER RUNTIME_SOURCES EXCLUDE REGEX "sixfold/(emulator/|ops/.*/emulate|cpu/quant)")
if(NOT SIXFOLD_QNN)
  list(FILTER RUNTIME_SOURCES EXCLUDE REGEX "sixfold/(qnn/|execute/qnn_|pte/qnn_)")
endif()

function(build_selectively)
  target_compile_definitions(sixfold_runtime PRIVATE SIXFOLD_SELECTION="${SELECTION}" NDEBUG)
  target_compile_options(sixfold_runtime PRIVATE -Oz -flto -ffunction-sections -fdata-sections
                         -fno-asynchronous-unwind-tables -fno-sized-deallocation)
  target_link_options(pte_runner PRIVATE -Oz -flto=auto -flto-partition=one -fno-asynchronous-unwind-tables -Wl,--gc-sections -Wl,--as-needed -Wl,-z,pack-relative-relocs
                      -Wl,-z,noseparate-code -s)
endfunction()
