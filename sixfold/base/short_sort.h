// A stable sort for lists of a few items, such as axes: std::stable_sort is two kilobytes of code for each
// type.
#pragma once

#include <algorithm>

namespace sixfold {

template <typename Items, typename Before>
void sort_short(Items& items, const Before& before) {
  for (auto it = items.begin(); it != items.end(); ++it)
    std::rotate(std::upper_bound(items.begin(), it, *it, before), it, it + 1);
}

}  // namespace sixfold
