// SPDX-License-Identifier: MIT
// Texts to continue, of three kinds that differ in how well each draft serves them.
#pragma once

namespace draftproof {

struct Workload {
  const char* name;
  const char* prompt;
};

/// A story has few repetitions. Editing repeats most of a text. Code repeats its forms.
inline constexpr Workload workloads[] = {
    {"story", "Once upon a time there lived in Kestrel Bay a clockmaker named Greta Lindenwood."},
    {"edit",
     "The fox by the old oak\n\nA fox lived by the old oak, near the mill of Crow Hill. Every morning the fox went to "
     "the river, and every evening it came back to the old oak. One day a miller found a lantern by the river and "
     "carried it home.\n\nThe fox by the old oak\n\nA fox lived by the old oak, near the mill of Crow Hill. Every "
     "morning the fox went to the river, and every evening"},
    {"code",
     "int width(const Box& box) { return box.right - box.left; }\n"
     "int height(const Box& box) { return box.bottom - box.top; }\n"
     "int area(const Box& box) { return width(box) * height(box); }\n"
     "bool empty(const Box& box) { return width(box) == 0 || height(box) == 0; }\n"
     "Box moved(const Box& box, int x, int y) { return {box.left + x, box.top + y, box.right + x, box.bottom + y}; }\n"
     "int width("},
};

}  // namespace draftproof
