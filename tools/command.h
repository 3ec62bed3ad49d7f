// What the subcommands of `sixfold` share. Tools print; libraries below never do.
#pragma once

#include <string>

#include "sixfold/base/result.h"

namespace CLI {
class App;
}

namespace sixfold::tools {

// Each adds its subcommand and its options to app; the returned function runs it.
using Command = Status (*)();
void add_run(CLI::App& app, Command& chosen);
void add_show(CLI::App& app, Command& chosen);
void add_ops(CLI::App& app, Command& chosen);

// Writes the text to stdout at once, with a line end.
void print_line(const std::string& text);

}  // namespace sixfold::tools
