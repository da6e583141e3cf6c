// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/rope.h"

#include <errno.h>
#include <string.h>

#define LINE_MAX_BYTES 160 // of a line that an error shows

static void piece_add(struct sql_rope *rope, const char *sql, size_t size, struct sql_piece piece)
{
    piece.at = rope->sql.size;
    if (size == 0)
        return;
    strbuf_add(&rope->sql, sql, size);
    if (!rope->sql.failed && sql_piece_vec_push(&rope->pieces, piece) < 0)
        rope->sql.failed = true;
}

void rope_add_made(struct sql_rope *rope, const char *sql)
{
    piece_add(rope, sql, strlen(sql), (struct sql_piece){0});
}

void rope_add_made_at(struct sql_rope *rope, const char *sql, struct sql_piece place)
{
    piece_add(rope, sql, strlen(sql), place);
}

void rope_add_text(struct sql_rope *rope, const struct sql_text *text, size_t begin, size_t end,
                   uint32_t call)
{
    struct sql_piece piece = {.text = text, .offset = begin, .call = call};
    piece_add(rope, text->sql + begin, end - begin, piece);
}

// Returns the index of the piece that has the character at `at`.
static size_t piece_find(const struct sql_rope *rope, size_t at)
{
    size_t low = 0, high = rope->pieces.n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (rope->pieces.items[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void rope_add(struct sql_rope *rope, const struct sql_rope *from, size_t begin, size_t end)
{
    for (size_t i = piece_find(from, begin); begin < end; i++) {
        struct sql_piece piece = from->pieces.items[i];
        size_t piece_end = i + 1 < from->pieces.n ? from->pieces.items[i + 1].at : end;
        size_t n = (piece_end < end ? piece_end : end) - begin;
        piece.offset += begin - piece.at;
        piece_add(rope, from->sql.text + begin, n, piece);
        begin += n;
    }
}

int rope_check(const struct sql_rope *rope)
{
    return rope->sql.failed ? -ENOMEM : 0;
}

void rope_done(struct sql_rope *rope)
{
    strbuf_done(&rope->sql);
    sql_piece_vec_done(&rope->pieces);
}

struct sql_piece rope_origin(const struct sql_rope *rope, size_t at)
{
    if (rope->pieces.n == 0)
        return (struct sql_piece){0};
    struct sql_piece piece = rope->pieces.items[piece_find(rope, at)];
    piece.offset += at - piece.at;
    return piece;
}

void sql_place_print(struct strbuf *out, const struct sql_piece *place)
{
    const char *sql = place->text->sql, *at = sql + place->offset, *line = at;
    while (line > sql && line[-1] != '\n')
        line--;
    unsigned number = 1;
    for (const char *c = sql; c < line; c++)
        number += *c == '\n';
    size_t column = (size_t)(at - line), size = strcspn(line, "\n"), skipped = 0;
    if (column >= LINE_MAX_BYTES) {
        skipped = column - LINE_MAX_BYTES / 2;
        line += skipped;
        size -= skipped;
    }
    if (size > LINE_MAX_BYTES)
        size = LINE_MAX_BYTES;
    size_t begin = out->size;
    strbuf_addf(out, "\n  %s%sline %u, column %zu: ", place->text->name,
                *place->text->name ? " " : "", number, column + 1);
    size_t prefix = out->size - begin - 1;
    strbuf_add(out, line, size);
    strbuf_addf(out, "\n%*s^", (int)(prefix + column - skipped), "");
}
