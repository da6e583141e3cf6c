// SPDX-License-Identifier: Apache-2.0
//
// ncurses draws, and sends only changes. The terminal gets its former content back when the user, a
// signal or the number of frames ends the program.
#include <curses.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "producer/cli/top_screen.h"

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

static void draw(const struct top_screen *screen)
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
    size_t n = screen->lines(screen->sampler, screen->view, (size_t)rows, (size_t)columns, lines);
    for (size_t i = 0; i < n; i++) {
        attr_t attribute = attribute_of(lines[i].look, has_colour);
        attron(attribute);
        mvaddnstr((int)i, 0, lines[i].text, columns);
        attroff(attribute);
    }
    refresh();
}

// Returns false if the user ends the program. *ret_draw: the screen must be drawn again.
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
static bool wait_with_keys(struct top_screen *screen)
{
    nsec_t from = nsec_now(CLOCK_MONOTONIC), left;
    while (!screen->is_ending() && (left = from + screen->period - nsec_now(CLOCK_MONOTONIC)) > 0) {
        bool draws;
        timeout((int)(left / NSEC_PER_MSEC) + 1);
        int key = getch();
        if (key == ERR && errno != EINTR && !isatty(STDIN_FILENO))
            return false;
        if (!take_key(key, screen->view, &screen->period, &draws))
            return false;
        if (draws)
            draw(screen);
    }
    return !screen->is_ending();
}

int top_screen_run(struct top_screen *screen)
{
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    const char *moves = terminal ? tigetstr("cup") : NULL;
    if (!moves || moves == (char *)-1) {
        if (terminal) {
            endwin();
            delscreen(terminal);
        }
        return TOP_SCREEN_E_DUMB;
    }
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    colours_begin();
    for (uint32_t n = 0; !screen->frames || n < screen->frames; n++) {
        screen->sample(screen->sampler);
        draw(screen);
        if (n + 1 != screen->frames && !wait_with_keys(screen))
            break;
    }
    endwin();
    delscreen(terminal);
    return 0;
}
