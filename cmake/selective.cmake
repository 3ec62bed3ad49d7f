# A runtime with nothing but what the programs of SIXFOLD_KERNELS_FROM need: `sixfold kernels` lists that in a header,
# tables are filtered by it (sixfold/base/selection.h), and the linker drops what they do not name.
if(NOT SIXFOLD_TOOL)
  message(FATAL_ERROR "SIXFOLD_KERNELS_FROM needs SIXFOLD_TOOL, the path of a sixfold that was built in full")
endif()
set(SELECTION ${GENERATED}/selection.h)
add_custom_command(OUTPUT ${SELECTION} DEPENDS ${SIXFOLD_KERNELS_FROM} ${SIXFOLD_TOOL} VERBATIM
                   COMMAND ${SIXFOLD_TOOL} kernels ${SIXFOLD_KERNELS_FROM} -o ${SELECTION})
target_sources(sixfold_runtime PRIVATE ${SELECTION})
target_compile_definitions(sixfold_runtime PRIVATE SIXFOLD_SELECTION="${SELECTION}")
target_compile_definitions(sixfold_runtime PRIVATE NDEBUG)
target_compile_options(sixfold_runtime PRIVATE -Os -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables)
target_link_options(pte_runner PRIVATE -Wl,--gc-sections -Wl,--as-needed -s)
