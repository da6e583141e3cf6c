// SPDX-License-Identifier: Apache-2.0
//
// The first row that fits decides. A trace has no signature, and its first byte is a newline, so
// kinds with a signature come first. The table also has kinds that a user may mistake for a trace,
// so that the message can name the kind of the given file.
#include "converter/input/kinds.h"

#include <string.h>

#include "common/elements.h"
#include "common/text.h"
#include "common/wire.h"
#include "converter/input/ftrace_line.h"
#include "converter/input/perf_line.h"
#include "converter/input/recognise.h"

#define LOOKED_AT 4096
#define TAR_BLOCK 512
#define ZIP_MIN   22
// Field numbers of a profile and of a ValueType
#define PPROF_SAMPLE_TYPE 1
#define PPROF_TYPE        1
#define PPROF_UNIT        2
#define TAR_SUM_AT        148
#define TAR_SUM_BYTES     8
#define TRACE_WANTED      "a trace, a bugreport or an archive of traces is wanted"

static bool starts_with(const uint8_t *bytes, size_t size, struct text start)
{
    return text_starts_with((struct text){(const char *)bytes, size}, start);
}

static bool contains(const uint8_t *bytes, size_t size, struct text part)
{
    return memmem(bytes, size, part.at, part.size) != NULL;
}

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

// Skips blanks, a byte order mark and, if `comments`, lines that begin with `#`.
static size_t text_start(const uint8_t *bytes, size_t size, bool comments)
{
    const struct text mark = TEXT("\xef\xbb\xbf");
    size_t at = starts_with(bytes, size, mark) ? mark.size : 0;
    for (;;) {
        while (at < size && is_space(bytes[at]))
            at++;
        if (!comments || at == size || bytes[at] != '#')
            return at;
        while (at < size && bytes[at] != '\n')
            at++;
    }
}

// Recognises `packet {` or `packet: <`, after comments.
static bool text_proto_recognise(const uint8_t *bytes, size_t size)
{
    const struct text word = TEXT("packet");
    size_t at = text_start(bytes, size, true);
    if (!starts_with(bytes + at, size - at, word))
        return false;
    at += word.size;
    at += text_start(bytes + at, size - at, true);
    if (at < size && bytes[at] == ':')
        at += 1 + text_start(bytes + at + 1, size - at - 1, true);
    return at < size && (bytes[at] == '{' || bytes[at] == '<');
}

// Recognises an object with a name, or an array of objects.
static bool json_recognise(const uint8_t *bytes, size_t size)
{
    size_t at = text_start(bytes, size, false);
    if (at == size || (bytes[at] != '{' && bytes[at] != '['))
        return false;
    bool is_array = bytes[at] == '[';
    at += 1;
    at += text_start(bytes + at, size - at, false);
    if (at == size)
        return size < LOOKED_AT && is_array;
    return is_array ? bytes[at] == '{' || bytes[at] == ']' : bytes[at] == '"' || bytes[at] == '}';
}

static bool chrome_json_recognise(const uint8_t *bytes, size_t size)
{
    size_t n = size < LOOKED_AT ? size : LOOKED_AT;
    return json_recognise(bytes, size) &&
           (contains(bytes, n, TEXT("\"traceEvents\"")) || contains(bytes, n, TEXT("\"ph\"")));
}

// Checks the sum: the header has the sum of its bytes, with blanks in place of the sum.
bool kind_is_tar_header(const uint8_t *bytes)
{
    uint32_t sum = 0, stated = 0;
    if (!*bytes)
        return false;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i - TAR_SUM_AT < TAR_SUM_BYTES ? ' ' : bytes[i];
    for (size_t i = TAR_SUM_AT; i < TAR_SUM_AT + TAR_SUM_BYTES; i++) {
        if (bytes[i] >= '0' && bytes[i] <= '7')
            stated = stated << 3 | (bytes[i] - '0');
        else if (bytes[i] != ' ' && bytes[i])
            return false;
    }
    return stated == sum;
}

static bool tar_recognise(const uint8_t *bytes, size_t size)
{
    return size >= TAR_BLOCK && kind_is_tar_header(bytes);
}

// Recognises a frame of data, or a frame that decoders skip.
static bool zstd_recognise(const uint8_t *bytes, size_t size)
{
    const struct text frame = TEXT("\x28\xb5\x2f\xfd"), skipped = TEXT("\x2a\x4d\x18");
    return starts_with(bytes, size, frame) ||
           (size && (bytes[0] & 0xf0) == 0x50 && starts_with(bytes + 1, size - 1, skipped));
}

static bool zip_recognise(const uint8_t *bytes, size_t size)
{
    return size >= ZIP_MIN &&
           (starts_with(bytes, size, TEXT("PK\3\4")) || starts_with(bytes, size, TEXT("PK\5\6")));
}

// Recognises a profile of pprof. A profile begins with a ValueType, whose only fields are the
// numbers 1 and 2. No packet has these numbers as varints.
static bool pprof_recognise(const uint8_t *bytes, size_t size)
{
    struct wire_reader profile = wire_reader_over(bytes, size < LOOKED_AT ? size : LOOKED_AT);
    struct wire_field field, value;
    if (!wire_next(&profile, &field) || field.number != PPROF_SAMPLE_TYPE ||
        field.type != WIRE_BYTES)
        return false;
    struct wire_reader type = wire_sub(&field);
    unsigned seen = 0;
    wire_foreach(&type, &value) {
        if (value.type != WIRE_VARINT || value.number > PPROF_UNIT)
            return false;
        seen |= 1U << value.number;
    }
    return !type.error && seen == (1U << PPROF_TYPE | 1U << PPROF_UNIT);
}

static bool html_recognise(const uint8_t *bytes, size_t size)
{
    static const struct text starts[] = {TEXT("<!doctype html"), TEXT("<html")};
    size_t at = text_start(bytes, size, false);
    for (size_t i = 0; i < ELEMENTS(starts); i++) {
        size_t n = 0;
        while (n < starts[i].size && at + n < size &&
               (bytes[at + n] | (bytes[at + n] >= 'A' && bytes[at + n] <= 'Z' ? 0x20 : 0)) ==
                   (uint8_t)starts[i].at[n])
            n++;
        if (n == starts[i].size)
            return true;
    }
    return false;
}

static bool systrace_recognise(const uint8_t *bytes, size_t size)
{
    return html_recognise(bytes, size) && systrace_page_recognise(bytes, size);
}

#define MAGIC(bytes) .magic = TEXT(bytes)
#define FOREIGN      .id = KIND_OTHER, .role = ROLE_FOREIGN

static const struct kind kinds[] = {
    {KIND_GZIP, ROLE_COMPRESSED, "gzip", MAGIC("\x1f\x8b\x08")},
    {KIND_ZSTD, ROLE_COMPRESSED, "zstd", .recognise = zstd_recognise},
    {KIND_XZ, ROLE_COMPRESSED, "xz", MAGIC("\xfd\x37zXZ\0"), .ui = KIND_UI_UNSURE},
    {KIND_ZIP, ROLE_ARCHIVE, "zip", .recognise = zip_recognise},
    {KIND_TAR, ROLE_ARCHIVE, "tar", .recognise = tar_recognise},
    {KIND_DATABASE, ROLE_FOREIGN, "a SQLite database", MAGIC("SQLite format 3\0"),
     .advice = "'mmsql query' and 'mmsql verdict' read a database that mmsql made; "
               "'mmsql convert --append' adds traces to it"},
    {FOREIGN, "an ELF file",
     MAGIC("\x7f"
           "ELF"),
     .advice = "programs and libraries go to --symbol-path, beside a trace"},
    {KIND_PERF_DATA, ROLE_TRANSLATED, "a perf.data recording", MAGIC("PERFILE2")},
    {FOREIGN, "a perf.data recording of another byte order", MAGIC("2ELIFREP"),
     .advice = "'perf script' makes text of it"},
    {KIND_SIMPLEPERF, ROLE_TRANSLATED, "a simpleperf report", MAGIC("SIMPLEPERF")},
    {FOREIGN, "a Java heap dump (hprof)", MAGIC("JAVA PROFILE 1.0."),
     .advice = "record the heap with the data source android.java_hprof for mmsql",
     .ui = KIND_UI_READS},
    {FOREIGN, "a Java Flight Recorder file", MAGIC("FLR\0"), .advice = TRACE_WANTED},
    {FOREIGN, "a pprof profile", .recognise = pprof_recognise,
     .advice = "'pprof' reads it; mmsql writes such profiles, and reads traces",
     .ui = KIND_UI_READS},
    {FOREIGN, "a trace of trace-cmd (trace.dat)", MAGIC("\x17\x08\x44tracing"),
     .advice = "'trace-cmd report' makes text of it"},
    {FOREIGN, "a CTF trace (Common Trace Format)", MAGIC("\xc1\x1f\xfc\xc1"),
     .advice = "'babeltrace2' reads it"},
    {FOREIGN, "a CTF trace (Common Trace Format)", MAGIC("\xc1\xfc\x1f\xc1"),
     .advice = "'babeltrace2' reads it"},
    {FOREIGN, "a Fuchsia trace", MAGIC("\x10\x00\x04\x46\x78\x54\x16\x00"),
     .advice = "'trace_processor_shell' reads it", .ui = KIND_UI_READS},
    {FOREIGN, "a network capture (pcap)", MAGIC("\xd4\xc3\xb2\xa1"), .advice = TRACE_WANTED},
    {FOREIGN, "a network capture (pcapng)", MAGIC("\x0a\x0d\x0d\x0a"), .advice = TRACE_WANTED},
    {FOREIGN, "a PNG picture", MAGIC("\x89PNG\r\n\x1a\n"), .advice = TRACE_WANTED},
    {FOREIGN, "a JPEG picture", MAGIC("\xff\xd8\xff"), .advice = TRACE_WANTED},
    {FOREIGN, "a GIF picture", MAGIC("GIF8"), .advice = TRACE_WANTED},
    {FOREIGN, "a PDF document", MAGIC("%PDF-"), .advice = TRACE_WANTED},
    {FOREIGN, "an Android app or dex file", MAGIC("dex\n"), .advice = TRACE_WANTED},
    {FOREIGN, "bzip2 data", MAGIC("BZh"), .advice = "unpack it first, with bunzip2"},
    {FOREIGN, "lz4 data", MAGIC("\x04\x22\x4d\x18"), .advice = "unpack it first, with lz4 -d"},
    {FOREIGN, "a 7z archive", MAGIC("7z\xbc\xaf\x27\x1c"), .advice = "unpack it first, with 7z"},
    {FOREIGN, "a RAR archive", MAGIC("Rar!\x1a\x07"), .advice = "unpack it first"},
    {FOREIGN, "an ar archive or a Debian package", MAGIC("!<arch>\n"), .advice = "unpack it first"},
    {FOREIGN, "compress data (.Z)", MAGIC("\x1f\x9d"), .advice = "unpack it first, with gzip -d"},
    {KIND_FTRACE_TEXT, ROLE_TRANSLATED, "a page of systrace", .recognise = systrace_recognise},
    {FOREIGN, "an HTML page", .recognise = html_recognise, .advice = TRACE_WANTED,
     .ui = KIND_UI_UNSURE},
    {KIND_TEXT_PROTO, ROLE_TRANSLATED, "a trace as text", .recognise = text_proto_recognise,
     .ui = KIND_UI_UNSURE},
    {KIND_JSON, ROLE_TRANSLATED, "a Chrome trace (JSON)", .recognise = chrome_json_recognise},
    {KIND_JSON, ROLE_TRANSLATED, "JSON", .recognise = json_recognise, .is_weak = true},
    {KIND_TRACE, ROLE_TRACE, "a trace", .recognise = trace_recognise},
    {KIND_PERF_TEXT, ROLE_TRANSLATED, "text of perf", .recognise = perf_text_recognise},
    {KIND_FTRACE_TEXT, ROLE_TRANSLATED, "ftrace text", .recognise = ftrace_text_recognise},
};

static bool kind_fits(const struct kind *kind, const uint8_t *bytes, size_t size)
{
    if (kind->recognise)
        return kind->recognise(bytes, size);
    return starts_with(bytes, size, kind->magic);
}

const struct kind *kind_recognise(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < ELEMENTS(kinds) && size; i++)
        if (kind_fits(&kinds[i], bytes, size))
            return &kinds[i];
    return NULL;
}

const struct kind *kind_of_rest(const uint8_t *bytes, size_t size)
{
    static const struct kind text = {.id = KIND_TEXT,
                                     .name = "text of an unknown form",
                                     .advice = TRACE_WANTED},
                             zeros = {.id = KIND_ZEROS,
                                      .name = "zeros",
                                      .advice = "the recording or the copy of it failed"},
                             binary = {.name = "binary data of an unknown form",
                                       .advice = "it does not begin with a packet"};
    size_t n_text = 0, n_zero = 0, n = size < LOOKED_AT ? size : LOOKED_AT;
    for (size_t i = 0; i < n; i++) {
        n_zero += !bytes[i];
        n_text += is_space(bytes[i]) || (bytes[i] >= ' ' && bytes[i] != 0x7f);
    }
    if (n_zero == n)
        return &zeros;
    return n_text == n ? &text : &binary;
}
