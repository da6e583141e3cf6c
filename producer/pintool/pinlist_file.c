// SPDX-License-Identifier: Apache-2.0
//
// The limit is eight million ranges: far more than anybody pins, and few enough to be read at once.
#include "producer/pintool/pinlist_file.h"

#include <errno.h>

#include "common/cleanup.h"
#include "producer/pintool/whole_file.h"

#define PINLIST_BYTES_MAX ((size_t)64 << 20)

int pinlist_file_read(const char *path, struct pinlist *ret, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf bytes = {0};
    int r = whole_file_read(path, PINLIST_BYTES_MAX, &bytes, err);
    return r < 0 ? r : pinlist_parse(bytes.text, bytes.size, path, ret, err);
}

int pinlist_file_write(const char *path, const struct pinlist *list, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf bytes = {0};
    pinlist_encode(list, &bytes);
    if (bytes.failed)
        return err_errno(err, -ENOMEM, "%s", path);
    return whole_file_write(path, bytes.text, bytes.size, err);
}
