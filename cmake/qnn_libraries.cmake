# The emulator as libQnnHtp.so and libQnnSystem.so, in a folder that serves as QNN_SDK_ROOT. Built when asked for
# (target qnn_libraries): position-independent code is compiled apart from the program's.
file(GLOB EMULATOR_SOURCES CONFIGURE_DEPENDS sixfold/base/*.cpp sixfold/cpu/*.cpp sixfold/emulator/*.cpp
     sixfold/ops/*/emulate*.cpp sixfold/plan/arena.cpp sixfold/qnn/*.cpp)
list(FILTER EMULATOR_SOURCES EXCLUDE REGEX "_test\\.cpp$|sixfold/cpu/onednn\\.cpp$")
add_library(sixfold_emulator STATIC EXCLUDE_FROM_ALL ${EMULATOR_SOURCES})
set_target_properties(sixfold_emulator PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                      VISIBILITY_INLINES_HIDDEN ON)
# Without oneDNN, whose threads the pool would hold back.
target_compile_options(sixfold_emulator PRIVATE -fno-exceptions -fno-rtti -USIXFOLD_ONEDNN $<$<CONFIG:Release>:-O3>)
target_link_libraries(sixfold_emulator PUBLIC ${HWY} ZLIB::ZLIB Threads::Threads)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(QNN_PLATFORM aarch64-ubuntu-gcc9.4)
else()
  set(QNN_PLATFORM x86_64-linux-clang)
endif()
foreach(library Htp System)
  string(TOLOWER ${library} file)
  add_library(Qnn${library} SHARED EXCLUDE_FROM_ALL sixfold/emulator/library/${file}.cpp)
  set_target_properties(Qnn${library} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/qnn/lib/${QNN_PLATFORM})
  target_compile_options(Qnn${library} PRIVATE -fno-exceptions -fno-rtti)
  # nodelete: its threads live as long as the process, also when a client closes the library.
  target_link_options(Qnn${library} PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--no-undefined -Wl,-z,nodelete)
  target_link_libraries(Qnn${library} PRIVATE sixfold_emulator)
endforeach()
add_custom_target(qnn_libraries DEPENDS QnnHtp QnnSystem)
