// SPDX-License-Identifier: Apache-2.0
//
// libedit passes no userdata to its callbacks, so their state is in a global variable.
#include "converter/cli/line_editor.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#ifdef HAVE_LIBEDIT
#include <editline/readline.h>
#endif

#define HISTORY_LINES 2000

static struct {
    const char *const *words; // borrowed
    char *history;            // owned
    bool edits;
} editor;

#ifdef HAVE_LIBEDIT

// Returns the next word for completion. libedit calls this function until it returns NULL. `state`
// is 0 at the first call.
static char *word_next(const char *text, int state)
{
    static size_t at;
    size_t n = strlen(text);
    if (!state)
        at = 0;
    while (editor.words[at]) {
        const char *word = editor.words[at++];
        if (strncasecmp(word, text, n) == 0)
            return strdup(word);
    }
    return NULL;
}

static char **words_complete(const char *text, int start, int end)
{
    (void)start;
    (void)end;
    rl_attempted_completion_over = 1; // no completion of file names
    return rl_completion_matches(text, word_next);
}

// Prepares libedit. Text is UTF-8, also if the locale has another encoding.
static void editor_begin(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
    static char break_characters[] = " \t\n\"'`@$><=;|&{(,)+-*/.";
    static char program[] = "mmsql";
    rl_readline_name = program;
    rl_completer_word_break_characters = break_characters;
    rl_attempted_completion_function = words_complete;
    using_history();
    stifle_history(HISTORY_LINES);
    if (editor.history)
        read_history(editor.history);
}

#endif

void line_editor_open(const char *const *words, const char *history)
{
    editor.words = words;
    editor.history = history ? strdup(history) : NULL;
#ifdef HAVE_LIBEDIT
    editor.edits = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (editor.edits)
        editor_begin();
#endif
}

void line_editor_words(const char *const *words)
{
    editor.words = words;
}

static char *line_read_plain(const char *prompt)
{
    char *line = NULL;
    size_t size = 0;
    if (isatty(STDIN_FILENO)) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    ssize_t n = getline(&line, &size, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    if (n && line[n - 1] == '\n')
        line[n - 1] = '\0';
    return line;
}

char *line_editor_read(const char *prompt)
{
#ifdef HAVE_LIBEDIT
    if (editor.edits)
        return readline(prompt);
#endif
    return line_read_plain(prompt);
}

void line_editor_remember(const char *line)
{
#ifdef HAVE_LIBEDIT
    if (editor.edits && *line)
        add_history(line);
#else
    (void)line;
#endif
}

void line_editor_close(void)
{
#ifdef HAVE_LIBEDIT
    if (editor.edits && editor.history) {
        mode_t mask = umask(077); // the history is private
        write_history(editor.history);
        umask(mask);
    }
#endif
    free(editor.history);
    editor.history = NULL;
}
