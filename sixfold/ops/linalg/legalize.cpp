#include "sixfold/ops/legalize.h"

namespace sixfold::legalize {

Match linalg(Legal& legal) {
  return legal.unsupported(
      cat("ExecuTorch has no kernel for the matrix function ", legal.attrs().text("function")));
}

}  // namespace sixfold::legalize
