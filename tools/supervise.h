// Qualcomm's libraries work inside our process, and a crash of theirs would end it without a word. So a
// command that uses them runs in a child, and this process tells what became of it.
#pragma once

#include <functional>

namespace sixfold::tools {

// The exit status of the command, or 1 after a message when a signal ended it. No thread may be running yet.
// After a crash at preparing a graph it runs once more, and prepares graphs in children of its own.
int supervise(const std::function<int()>& command);

}  // namespace sixfold::tools
