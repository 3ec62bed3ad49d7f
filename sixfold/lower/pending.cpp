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
PENDING_LOWER(grid_sampler)
PENDING_LOWER(index_select)
PENDING_LOWER(pixel_shuffle)
PENDING_LOWER(scatter)
PENDING_LOWER(scatter_nd)
PENDING_LOWER(topk)
PENDING_LOWER(upsample)

PENDING_REWRITE(col2im)
PENDING_REWRITE(embedding)
PENDING_REWRITE(gather)
PENDING_REWRITE(grid_sampler)
PENDING_REWRITE(gru)
PENDING_REWRITE(im2col)
PENDING_REWRITE(index)
PENDING_REWRITE(index_put)
PENDING_REWRITE(index_select)
PENDING_REWRITE(lstm)
PENDING_REWRITE(pixel_shuffle)
PENDING_REWRITE(quantize)
PENDING_REWRITE(rnn)
PENDING_REWRITE(scatter)
PENDING_REWRITE(sdpa)
PENDING_REWRITE(slice_scatter)
PENDING_REWRITE(sort)
PENDING_REWRITE(special)
PENDING_REWRITE(topk)
PENDING_REWRITE(upsample)

}  // namespace sixfold
