// SPDX-License-Identifier: Apache-2.0
//
// The pinlist inside an APK, where Android looks for it.
#pragma once

#include "common/err.h"
#include "common/str.h"
#include "common/zipindex.h"

#define EMBEDDED_LIST_NAME "assets/pinlist.meta"

// True if `bytes` begin as a zip does.
bool embedded_list_is_zip(const void *bytes, size_t size);

// Appends the bytes of the pinlist in the zip whose index is given, at most `max_bytes`. The zip is
// taken as hostile. -ENOENT: it has none; -EBADMSG: it has two, or one that cannot be what the
// directory says; -ENOTSUP: compressed by another method than deflate; -EFBIG; -ENOMEM; or what
// read() returned. The text begins with `name`.
int embedded_list_read(const struct zipindex_source *source, const struct zipindex *index,
                       const char *name, size_t max_bytes, struct strbuf *ret, struct err *err);
