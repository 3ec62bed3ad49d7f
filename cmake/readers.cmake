# SIXFOLD_FUZZ=readers: all that reads files, without a single kernel, so that its sanitized build takes minutes and the
# tests can have it. Constants do not fold here (fuzz/no_kernels.cpp).
file(GLOB READER_SOURCES CONFIGURE_DEPENDS sixfold/base/*.cpp sixfold/graph/*.cpp sixfold/import/*.cpp sixfold/pte/*.cpp
     sixfold/ops/*.cpp sixfold/ops/*/aten*.cpp sixfold/ops/*/compile*.cpp sixfold/ops/special/cpu_*.cpp
     sixfold/rewrite/*.cpp)  # functions of numbers fold while rules are applied
list(FILTER READER_SOURCES EXCLUDE REGEX "_test\\.cpp$|/ops/(cost|legalize)\\.cpp$|/rewrite/(device_grids|encodings|htp|legal.*|merge)\\.cpp$")
list(FILTER READER_SOURCES EXCLUDE REGEX "/pte/(write.*|etdump|lifetimes)\\.cpp$")
list(APPEND READER_SOURCES sixfold/emulator/binary.cpp sixfold/emulator/constants.cpp sixfold/emulator/op_view.cpp
     sixfold/emulator/read_abi.cpp sixfold/emulator/rules.cpp sixfold/emulator/shapes.cpp sixfold/emulator/shapes_image.cpp
     sixfold/qnn/binary_info.cpp sixfold/qnn/error.cpp sixfold/qnn/library.cpp sixfold/qnn/log.cpp sixfold/qnn/soc.cpp sixfold/qnn/stage.cpp
     sixfold/qnn/types.cpp sixfold/cpu/pool.cpp)
add_library(sixfold_readers STATIC ${READER_SOURCES} ${SCHEMA_HEADERS} fuzz/no_kernels.cpp)
target_include_directories(sixfold_readers SYSTEM PUBLIC ${GENERATED})
target_compile_options(sixfold_readers PRIVATE -fno-exceptions -fno-rtti)  # as the runtime is built, and quicker
target_link_libraries(sixfold_readers PUBLIC simdjson::simdjson ZLIB::ZLIB Threads::Threads)
