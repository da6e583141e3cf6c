// SPDX-License-Identifier: Apache-2.0
//
// Takes the address of malloc() in a program at a fixed address: such a program has a stub of its
// own that stands for malloc() everywhere.
#include <stdio.h>
#include <stdlib.h>

static void *(*volatile allocate)(size_t) = malloc;

int main(void)
{
    for (int i = 0; i < 1000; i++) {
        void *p = allocate(100);
        void *q = malloc(100);
        if (!p || !q)
            return 1;
        free(q);
        free(p);
    }
    puts("done");
    return 0;
}
