#include "sixfold/ops/legalize.h"

namespace sixfold::legalize {

Match special(Legal& legal) {
  return legal.unsupported(cat("ExecuTorch has no kernel for the function ", legal.attrs().text("function")));
}

}  // namespace sixfold::legalize
