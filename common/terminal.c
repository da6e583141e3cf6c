// SPDX-License-Identifier: Apache-2.0
#include "common/terminal.h"

#include <string.h>
#include <sys/ioctl.h>

unsigned terminal_columns(FILE *stream)
{
    struct winsize window = {0};
    return ioctl(fileno(stream), TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

// Returns the number of bytes of `text` that fit into the columns.
static size_t fitting(const char *text, size_t size, size_t columns)
{
    size_t n = 0;
    while (n < size && (columns > 0 || (text[n] & 0xc0) == 0x80)) {
        columns -= (text[n] & 0xc0) != 0x80; // the first byte of a character
        n++;
    }
    return n;
}

// Returns the size of the first line: as many words as fit, and at least one.
static size_t line_size(const char *text, size_t size, size_t columns)
{
    size_t n = fitting(text, size, columns);
    if (n == size || text[n] == ' ')
        return n;
    const char *blank = memrchr(text, ' ', n);
    if (!blank)
        blank = memchr(text + n, ' ', size - n);
    return blank ? (size_t)(blank - text) : size;
}

void terminal_print(FILE *to, const char *indent, const char *text, size_t size)
{
    size_t columns = terminal_columns(to), margin = strlen(indent);
    do {
        size_t n = columns > margin ? line_size(text, size, columns - margin) : size;
        fprintf(to, "%s%.*s\n", indent, (int)n, text);
        for (text += n, size -= n; size > 0 && *text == ' '; text++)
            size--;
    } while (size > 0);
}
