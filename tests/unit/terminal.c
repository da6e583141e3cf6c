// SPDX-License-Identifier: Apache-2.0
#include "common/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define THE_END '\x01' // of the output

struct screen {
    int master;
    FILE *stream;
};

static void screen_open(struct screen *screen, unsigned short columns)
{
    const struct winsize window = {.ws_col = columns};
    struct termios modes;
    screen->master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(screen->master >= 0);
    assert_int_equal(grantpt(screen->master), 0);
    assert_int_equal(unlockpt(screen->master), 0);
    int fd = open(ptsname(screen->master), O_RDWR | O_NOCTTY);
    assert_true(fd >= 0);
    assert_int_equal(tcgetattr(fd, &modes), 0);
    modes.c_oflag &= ~(tcflag_t)OPOST; // newlines stay as they are
    assert_int_equal(tcsetattr(fd, TCSANOW, &modes), 0);
    assert_int_equal(ioctl(fd, TIOCSWINSZ, &window), 0);
    screen->stream = fdopen(fd, "w");
    assert_non_null(screen->stream);
}

static void screen_close(struct screen *screen)
{
    fclose(screen->stream);
    close(screen->master);
}

static void assert_shows(unsigned short columns, const char *indent, const char *text,
                         const char *expected)
{
    char shown[256];
    struct screen screen;
    screen_open(&screen, columns);
    terminal_print(screen.stream, indent, text, strlen(text));
    fputc(THE_END, screen.stream);
    assert_int_equal(fflush(screen.stream), 0);
    size_t size = 0;
    do { // a terminal passes its bytes on in several pieces
        ssize_t n = read(screen.master, shown + size, sizeof(shown) - size);
        assert_true(n > 0);
        size += (size_t)n;
    } while (shown[size - 1] != THE_END);
    shown[size - 1] = 0;
    assert_string_equal(shown, expected);
    screen_close(&screen);
}

static void lines_end_between_words(void **state)
{
    (void)state;
    assert_shows(10, "", "one two three", "one two\nthree\n");
    assert_shows(7, "", "one two three", "one two\nthree\n");
    assert_shows(10, "  ", "one two three four", "  one two\n  three\n  four\n");
    assert_shows(40, "  ", "one two", "  one two\n");
    assert_shows(10, "", "one  two three", "one  two\nthree\n");
    assert_shows(8, "", "trailing ", "trailing\n");
    assert_shows(10, "", "", "\n");
}

// A word that is longer than a line stays whole. A character of several bytes has one column.
static void long_words_and_characters(void **state)
{
    (void)state;
    assert_shows(5, "", "a /very/long/path b", "a\n/very/long/path\nb\n");
    assert_shows(6, "", "µs µs µs µs", "µs µs\nµs µs\n");
    assert_shows(2, "    ", "no room", "    no room\n"); // left to the terminal
}

static void other_files_have_whole_paragraphs(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *stream = tmpfile(), *memory = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_non_null(memory);
    assert_int_equal(terminal_columns(stream), 0);
    assert_int_equal(terminal_columns(memory), 0);
    terminal_print(memory, "  ", "one two three", 7);
    fclose(memory);
    fclose(stream);
    assert_string_equal(text, "  one two\n");
    free(text);
}

static void the_terminal_tells_its_columns(void **state)
{
    (void)state;
    struct screen screen;
    screen_open(&screen, 123);
    assert_int_equal(terminal_columns(screen.stream), 123);
    screen_close(&screen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_between_words),
        cmocka_unit_test(long_words_and_characters),
        cmocka_unit_test(other_files_have_whole_paragraphs),
        cmocka_unit_test(the_terminal_tells_its_columns),
    };
    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
