// Rules that are not written yet.
#include "sixfold/lower/lowering.h"
#include "sixfold/rewrite/htp.h"

namespace sixfold {

#define PENDING_LOWER(name) \
  void lower::name(Lowering& l) { l.refuse("no lowering is written for it"); }
#define PENDING_REWRITE(name) \
  Match htp::name(Htp&) { return no_match("no rule is written for it"); }



}  // namespace sixfold
