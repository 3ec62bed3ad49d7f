// sixfold: the command line. Exit 0 only when what was asked happened; otherwise one sentence on stderr.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "tools/command.h"

namespace sixfold::tools {

void print_line(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

namespace {

int report(const Error& error) {
  std::fprintf(stderr, "sixfold: %s\n", error.message().c_str());
  return error.code() == Code::InvalidArgument ? 2 : 1;
}

int run(int argc, char** argv) {
  CLI::App app{"sixfold: PyTorch models (.pt2, saved with torch.export.save) to Qualcomm NPUs, and what they do there", "sixfold"};
  app.set_version_flag("--version", "sixfold " SIXFOLD_VERSION);
  app.require_subcommand(1);
  Command chosen = nullptr;
  add_run(app, chosen);
  add_show(app, chosen);
  add_ops(app, chosen);
  CLI11_PARSE(app, argc, argv);
  if (Status s = chosen(); !s.ok()) return report(s.error());
  if (std::fflush(stdout) != 0) return report(Error(Code::InvalidArgument, "standard output cannot be written"));
  return 0;
}

}  // namespace
}  // namespace sixfold::tools

int main(int argc, char** argv) {
  try {
    return sixfold::tools::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return sixfold::tools::report(sixfold::fail(sixfold::Code::OutOfMemory, "not enough memory for this model"));
  }
}
