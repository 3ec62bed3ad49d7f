// Rules that are not written yet.
#include "sixfold/lower/lowering.h"
#include "sixfold/rewrite/htp.h"

namespace sixfold {

#define PENDING_LOWER(name) \
  void lower::name(Lowering& l) { l.refuse("no lowering is written for it"); }
#define PENDING_REWRITE(name) \
  Match htp::name(Htp&) { return no_match("no rule is written for it"); }

PENDING_LOWER(convert)
PENDING_LOWER(embedding)
PENDING_LOWER(gather)
PENDING_LOWER(index_select)
PENDING_LOWER(scatter)
PENDING_LOWER(scatter_nd)
PENDING_LOWER(topk)

PENDING_REWRITE(embedding)
PENDING_REWRITE(gather)
PENDING_REWRITE(gru)
PENDING_REWRITE(index)
PENDING_REWRITE(index_put)
PENDING_REWRITE(index_select)
PENDING_REWRITE(lstm)
PENDING_REWRITE(quantize)
PENDING_REWRITE(rnn)
PENDING_REWRITE(scatter)
PENDING_REWRITE(sdpa)
PENDING_REWRITE(slice_scatter)
PENDING_REWRITE(sort)
PENDING_REWRITE(special)
PENDING_REWRITE(topk)

}  // namespace sixfold
