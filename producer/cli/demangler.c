// SPDX-License-Identifier: Apache-2.0
#include "producer/cli/demangler.h"

#include <dlfcn.h>

#include "common/elements.h"
#include "common/mangled.h"

static const char *const runtimes[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};

static void load(struct demangler *demangler)
{
    for (size_t i = 0; !demangler->read && i < ELEMENTS(runtimes); i++) {
        void *library = dlopen(runtimes[i], RTLD_LAZY | RTLD_LOCAL);
        if (!library)
            continue;
        demangler->library = library;
        demangler->read = (mangled_read_fn)dlsym(library, "__cxa_demangle");
        if (!demangler->read)
            demangler_done(demangler);
    }
}

void demangler_done(struct demangler *demangler)
{
    if (demangler->library)
        dlclose(demangler->library);
    *demangler = (struct demangler){0};
}

char *demangler_read(struct demangler *demangler, const char *name)
{
    if (name[0] != '_')
        return NULL;
    if (!demangler->read)
        load(demangler);
    return demangler->read ? mangled_read(name, demangler->read) : NULL;
}
