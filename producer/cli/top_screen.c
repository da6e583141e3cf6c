// SPDX-License-Identifier: Apache-2.0
//
// ncurses draws: it sends what changed alone. The screen goes back to what it was at each end that
// the program sees.
#include <curses.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/str.h"
#include "producer/cli/top.h"

#define PERIOD_MIN (500 * NSEC_PER_MSEC)
#define PERIOD_MAX (60 * NSEC_PER_SEC)

static const int colours[] = {
    [TOP_GOOD] = COLOR_GREEN, [TOP_WARN] = COLOR_YELLOW, [TOP_BAD] = COLOR_RED};

static void colours_begin(void)
{
    const char *no = getenv("NO_COLOR");
    if ((no && *no) || !has_colors())
        return;
    start_color();
    use_default_colors();
    for (short look = TOP_GOOD; look <= TOP_BAD; look++)
        init_pair(look, (short)colours[look], -1);
}

static attr_t attribute_of(enum top_look look, bool has_colour)
{
    if (look == TOP_TITLE)
        return A_BOLD;
    if (look == TOP_PLAIN)
        return A_NORMAL;
    return has_colour         ? (attr_t)COLOR_PAIR(look) | (look == TOP_BAD ? A_BOLD : 0)
           : look == TOP_BAD  ? A_REVERSE
           : look == TOP_WARN ? A_BOLD
                              : A_NORMAL;
}

static void draw(struct top_sampler *sampler, const struct top_view *view)
{
    static struct top_line lines[TOP_ROWS_MAX];
    int rows, columns;
    getmaxyx(stdscr, rows, columns);
    erase();
    if (rows < TOP_ROWS_MIN || columns < TOP_COLUMNS_MIN) {
        mvaddstr(0, 0, "too small");
        refresh();
        return;
    }
    const char *no = getenv("NO_COLOR");
    bool has_colour = !(no && *no) && has_colors();
    size_t n = top_view_lines(sampler, view, (size_t)rows, (size_t)columns, lines);
    for (size_t i = 0; i < n; i++) {
        attr_t attribute = attribute_of(lines[i].look, has_colour);
        attron(attribute);
        mvaddnstr((int)i, 0, lines[i].text, columns);
        attroff(attribute);
    }
    refresh();
}

// Returns false if the user ends the program. *ret_draw: something else is to be shown.
static bool take_key(int key, struct top_view *view, nsec_t *period, bool *ret_draw)
{
    *ret_draw = true;
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case 's':
        view->sort = (view->sort + 1) % N_TOP_SORTS;
        break;
    case 'h':
    case '?':
        view->help = !view->help;
        break;
    case '+':
        *period = *period * 2 < PERIOD_MAX ? *period * 2 : PERIOD_MAX;
        break;
    case '-':
        *period = *period / 2 > PERIOD_MIN ? *period / 2 : PERIOD_MIN;
        break;
    case KEY_RESIZE:
        break;
    default:
        *ret_draw = false;
    }
    return true;
}

// Waits for keys until the next sample is due. Returns false if the user ends the program.
static bool wait_with_keys(struct top_sampler *sampler, struct top_view *view, nsec_t *period)
{
    nsec_t from = nsec_now(CLOCK_MONOTONIC), left;
    while (!top_is_ending() && (left = from + *period - nsec_now(CLOCK_MONOTONIC)) > 0) {
        bool draws;
        timeout((int)(left / NSEC_PER_MSEC) + 1);
        int key = getch();
        if (key == ERR && errno != EINTR && !isatty(STDIN_FILENO))
            return false;
        if (!take_key(key, view, period, &draws))
            return false;
        if (draws)
            draw(sampler, view);
    }
    return !top_is_ending();
}

int top_screen_run(struct top_sampler *sampler, struct top_view *view, nsec_t period,
                   uint32_t frames, struct err *err)
{
    const char *terminal = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        err_set(err, -ENOTTY, "standard input and output are not a terminal");
        return err_hint(err, -ENOTTY, "--batch prints lines instead");
    }
    SCREEN *screen = newterm(NULL, stdout, stdin);
    const char *moves = screen ? tigetstr("cup") : NULL;
    if (!moves || moves == (char *)-1) {
        if (screen) {
            endwin();
            delscreen(screen);
        }
        err_set(err, -ENOTTY, "the terminal \"%s\" cannot move its cursor",
                terminal ? terminal : "");
        return err_hint(err, -ENOTTY, "set TERM, or: --batch prints lines instead");
    }
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    colours_begin();
    for (uint32_t n = 0; !frames || n < frames; n++) {
        top_sample(sampler);
        draw(sampler, view);
        if (n + 1 != frames && !wait_with_keys(sampler, view, &period))
            break;
    }
    endwin();
    delscreen(screen);
    return 0;
}
