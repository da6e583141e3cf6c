// SPDX-License-Identifier: Apache-2.0
//
// A packet has the symbols of one file. A file with many symbols gets several packets.
#include "converter/symbols/symbol_packets.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/wire.h"
#include "converter/symbols/elf_file.h"
#include "converter/tables/statement.h"
#include "protos/fields.h"

#define TEXT_MAX      4096 // bytes of a function or path; the rest is cut
#define LINE_MAX_SIZE (2 * TEXT_MAX + 32)
#define ADDRESS_MAX   (ELF_SYMBOLS_MAX * LINE_MAX_SIZE)
#define PACKET_MAX    ((size_t)2 * ADDRESS_MAX)
#define BUILD_ID_MAX  64 // bytes

enum { PATH, BUILD_ID, ADDRESS, FUNCTION, FILE_NAME, LINE };

// The lines of each address, the innermost first. Several mappings of a file have the same symbols.
static const char symbols_sql[] =
    "WITH frame AS (SELECT m.name AS path, m.build_id, f.rel_pc, min(f.symbol_set_id) AS id "
    "FROM stack_profile_frame f JOIN stack_profile_mapping m ON m.id = f.mapping "
    "WHERE f.symbol_set_id IS NOT NULL AND m.build_id != '' GROUP BY 1, 2, 3) "
    "SELECT path, build_id, rel_pc, s.name, s.source_file, s.line_number FROM frame "
    "JOIN stack_profile_symbol s ON s.symbol_set_id = frame.id ORDER BY 1, 2, 3, s.id";

struct packets {
    FILE *out;                    // borrowed
    struct strbuf path, build_id; // of the present packet
    int64_t address;
    unsigned n_lines; // of the address; 0: no address is open
    size_t n_addresses;
    struct wire_writer w;
    size_t packet, module, part; // marks
    uint8_t *buffer;             // owned
};

static void packets_done(struct packets *packets)
{
    strbuf_done(&packets->path);
    strbuf_done(&packets->build_id);
    free(packets->buffer);
}

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

// Reads hexadecimal digits. Returns the number of bytes; 0: the text has something else, or too
// much.
static size_t build_id_read(const char *text, uint8_t bits[BUILD_ID_MAX])
{
    size_t n = strlen(text) / 2;
    if (n > BUILD_ID_MAX || text[2 * n])
        return 0;
    for (size_t i = 0; i < n; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return 0;
        bits[i] = (uint8_t)(high << 4 | low);
    }
    return n;
}

static void address_end(struct packets *packets)
{
    if (packets->n_lines)
        wire_end(&packets->w, packets->part);
    packets->n_lines = 0;
}

static void packet_end(struct packets *packets)
{
    address_end(packets);
    if (!wire_size(&packets->w))
        return;
    wire_end(&packets->w, packets->module);
    wire_end(&packets->w, packets->packet);
    fwrite(packets->buffer, 1, wire_size(&packets->w), packets->out);
    packets->w = wire_writer_over(packets->buffer, PACKET_MAX);
}

static void text_put(struct wire_writer *w, uint32_t field, const char *text)
{
    wire_text(w, field, text, strnlen(text, TEXT_MAX));
}

static bool is_of_packet(const struct packets *packets, sqlite3_stmt *row)
{
    return wire_size(&packets->w) > 0 && str_eq(packets->path.text, column_text(row, PATH)) &&
           str_eq(packets->build_id.text, column_text(row, BUILD_ID));
}

static int packet_begin(struct packets *packets, sqlite3_stmt *row, const uint8_t *bits, size_t n)
{
    strbuf_clear(&packets->path);
    strbuf_add_str(&packets->path, column_text(row, PATH));
    strbuf_clear(&packets->build_id);
    strbuf_add_str(&packets->build_id, column_text(row, BUILD_ID));
    if (packets->path.failed || packets->build_id.failed)
        return -ENOMEM;
    struct wire_writer *w = &packets->w;
    packets->packet = wire_begin(w, PB_Trace_packet);
    packets->module = wire_begin(w, PB_TracePacket_module_symbols);
    text_put(w, PB_ModuleSymbols_path, packets->path.text);
    wire_bytes(w, PB_ModuleSymbols_build_id, bits, n);
    return 0;
}

static void address_begin(struct packets *packets, int64_t address)
{
    address_end(packets);
    packets->part = wire_begin(&packets->w, PB_ModuleSymbols_address_symbols);
    wire_uint(&packets->w, PB_AddressSymbols_address, (uint64_t)address);
    packets->address = address;
    packets->n_addresses++;
}

static void line_put(struct packets *packets, sqlite3_stmt *row)
{
    struct wire_writer *w = &packets->w;
    if (packets->n_lines++ >= ELF_SYMBOLS_MAX)
        return;
    size_t line = wire_begin(w, PB_AddressSymbols_lines);
    text_put(w, PB_Line_function_name, column_text(row, FUNCTION));
    if (sqlite3_column_type(row, FILE_NAME) != SQLITE_NULL)
        text_put(w, PB_Line_source_file_name, column_text(row, FILE_NAME));
    if (sqlite3_column_int64(row, LINE) > 0)
        wire_uint(w, PB_Line_line_number, (uint64_t)sqlite3_column_int64(row, LINE));
    wire_end(w, line);
}

static int row_put(struct packets *packets, sqlite3_stmt *row)
{
    int64_t address = sqlite3_column_int64(row, ADDRESS);
    bool is_new = !packets->n_lines || packets->address != address;
    if (!is_of_packet(packets, row) || (is_new && wire_room(&packets->w) < ADDRESS_MAX)) {
        uint8_t bits[BUILD_ID_MAX];
        size_t n = build_id_read(column_text(row, BUILD_ID), bits);
        packet_end(packets);
        int r = n ? packet_begin(packets, row, bits, n) : 0;
        if (r < 0 || n == 0)
            return r;
        is_new = true;
    }
    if (is_new)
        address_begin(packets, address);
    line_put(packets, row);
    return 0;
}

int symbol_packets_write(struct sqlite3 *handle, FILE *out, size_t *ret_n, struct err *err)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    CLEANUP(packets_done) struct packets packets = {.out = out, .buffer = malloc(PACKET_MAX)};
    int r = packets.buffer ? 0 : -ENOMEM;
    int code = sqlite3_prepare_v2(handle, symbols_sql, -1, &row, NULL);
    packets.w = wire_writer_over(packets.buffer, packets.buffer ? PACKET_MAX : 0);
    while (r == 0 && code == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
        r = row_put(&packets, row);
        code = SQLITE_OK;
    }
    if (r < 0)
        return err_errno(err, r, "symbols");
    if (code != SQLITE_DONE)
        return err_set(err, -EIO, "symbols: %s", sqlite3_errmsg(handle));
    packet_end(&packets);
    *ret_n = packets.n_addresses;
    return 0;
}
