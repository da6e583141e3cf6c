// SPDX-License-Identifier: Apache-2.0
//
// The demangler is a function of the compiler's C++ runtime.
#include "converter/symbols/demangle.h"

#include "common/mangled.h"

#ifdef HAVE_CXA_DEMANGLE
char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);
#endif

char *symbol_demangle(const char *name)
{
#ifdef HAVE_CXA_DEMANGLE
    return mangled_read(name, __cxa_demangle);
#else
    (void)name;
    return NULL;
#endif
}
