// Sorting in few bytes of code, for what a small runtime does once or with a few items: std::sort is a
// kilobyte for each type and comparison, std::stable_sort two.
#pragma once

#include <algorithm>
#include <functional>

namespace sixfold {

// Stable; for lists of a few items, such as axes.
template <typename Items, typename Before>
void sort_short(Items& items, const Before& before) {
  for (auto it = items.begin(); it != items.end(); ++it)
    std::rotate(std::upper_bound(items.begin(), it, *it, before), it, it + 1);
}

// Any number of items; equals in no order.
template <typename Items, typename Before = std::less<>>
void sort_small(Items& items, const Before& before = {}) {
  std::make_heap(items.begin(), items.end(), before);
  std::sort_heap(items.begin(), items.end(), before);
}

}  // namespace sixfold
