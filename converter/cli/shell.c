// SPDX-License-Identifier: Apache-2.0
//
// The prompt collects lines until SQLite reports a complete statement. The output goes through a
// pager, so that a wide or long table does not run off the screen. Ctrl-C ends the running
// statement or discards the typed statement; the program continues.
#include "converter/cli/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/map.h"
#include "common/str.h"
#include "common/vec.h"
#include "converter/cli/cli.h"
#include "converter/cli/line_editor.h"
#include "converter/cli/modules.h"
#include "converter/cli/say.h"
#include "converter/cli/statements.h"
#include "converter/cli/streams.h"
#include "converter/cli/working_file.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/sql/sql.h"

#define WATCH_STEPS 10000

VEC_DEFINE(word_vec, const char *);

struct shell {
    sqlite3 *handle;           // borrowed
    struct sql_engine *engine; // borrowed
    struct result_form form;
    struct result_sets sets; // of all statements, if standard input is a file or a pipe
    bool timing, pages, failed, asks;
    FILE *pager;  // owned; NULL: no pager runs
    int terminal; // a copy of standard output, owned while a pager runs
    struct strbuf statement;
    struct strset names; // owns the texts of `words`
    struct word_vec words;
};

static volatile sig_atomic_t interrupted; // by Ctrl-C

static const char help[] =
    "SQL, ended by ';', or one of:\n"
    "  .tables [NAME]          tables and views, or the columns of one\n"
    "  .modules [NAME]         modules of PerfettoSQL, or what one of them has\n"
    "  .functions              functions beside SQLite's own\n"
    "  .mode FORM              print rows as table, csv, json or json-lines\n"
    "  .timer on|off           how long statements take\n"
    "  .pager on|off           long output through $PAGER (less)\n"
    "  .read FILE              run the SQL of a file\n"
    "  .help, .quit\n"
    "Tab completes names of tables, columns and functions. Ctrl-C ends a statement.\n";

static const char *const keywords[] = {
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "USING",
    "DISTINCT",
    "count(",
    "sum(",
    "min(",
    "max(",
    "avg(",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "AND",
    "OR",
    "NOT",
    "NULL",
    "LIKE",
    "GLOB",
    "BETWEEN",
    "DESC",
    "WITH",
    "UNION ALL",
    "INCLUDE PERFETTO MODULE",
    "CREATE PERFETTO TABLE",
    ".tables",
    ".modules",
    ".functions",
    ".mode",
    ".timer",
    ".pager",
    ".read",
    ".help",
    ".quit",
};

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
}

static int statement_watch(void *userdata)
{
    (void)userdata;
    return interrupted != 0;
}

static void word_add(struct shell *shell, const char *text)
{
    size_t before = shell->names.n;
    uint32_t id = strset_add(&shell->names, text, strlen(text));
    if (id != STRSET_NONE && shell->names.n > before)
        word_vec_push(&shell->words, strset_text(&shell->names, id));
}

static int word_take(void *userdata, int n, char **values, char **names)
{
    (void)names;
    for (int i = 0; i < n; i++)
        if (values[i] && values[i][0] != '_')
            word_add(userdata, values[i]);
    return 0;
}

static void words_gather(struct shell *shell)
{
    for (size_t i = 0; i < ELEMENTS(keywords); i++)
        word_add(shell, keywords[i]);
    sqlite3_exec(shell->handle,
                 "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
                 "WHERE m.type IN ('table', 'view')",
                 word_take, shell, NULL);
    sqlite3_exec(shell->handle, "SELECT DISTINCT name FROM pragma_function_list WHERE NOT builtin",
                 word_take, shell, NULL);
    word_vec_push(&shell->words, NULL);
}

// Adds temporary tables and views to the completion.
static void words_gather_temporary(struct shell *shell)
{
    if (shell->words.n)
        shell->words.n--;
    sqlite3_exec(shell->handle,
                 "SELECT m.name, c.name FROM sqlite_temp_master m, pragma_table_info(m.name) c "
                 "WHERE m.type IN ('table', 'view')",
                 word_take, shell, NULL);
    word_vec_push(&shell->words, NULL);
    line_editor_words(shell->words.items);
}

// Returns whether no other user can lead the path to another file. All folders on the path must be
// trusted, because root's HOME may belong to another user.
static bool history_is_own(const char *path)
{
    CLEANUP(path_end_done) struct path_end end = PATH_END_INIT;
    CLEANUP(freep) char *folder = folder_of(path);
    struct stat st;
    int r = path_walk(path, true, folder_fault, &end);
    if (r == -ENOENT && folder && folder_make(folder, 0700, NULL) == 0) {
        path_end_done(&end);
        r = path_walk(path, true, folder_fault, &end);
    }
    if (end.part)
        say("no history: %s %s", end.part, end.fault);
    if (r < 0)
        return false;
    if (fstatat(end.folder, end.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT;
    return S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

// Returns the path of the history, $XDG_STATE_HOME/mmtrace/query_history, and makes its folders.
// The caller frees the path. NULL: no history.
static char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    CLEANUP(strbuf_done) struct strbuf path = {0};
    if (state && *state)
        strbuf_add_str(&path, state);
    else if (home && *home)
        strbuf_addf(&path, "%s/.local/state", home);
    else
        return NULL;
    strbuf_add_str(&path, "/mmtrace/query_history");
    return !path.failed && history_is_own(path.text) ? strbuf_steal(&path) : NULL;
}

// Redirects standard output to a pager. Called at the first output, because a pager without input
// would take Ctrl-C for itself.
static void pager_begin(void *userdata)
{
    struct shell *shell = userdata;
    const char *pager = getenv("PAGER");
    if (shell->pager || !shell->pages || !isatty(STDOUT_FILENO))
        return;
    if (!pager || !*pager)
        pager = access("/usr/bin/less", X_OK) == 0 ? "/usr/bin/less -SFRXK" : NULL;
    fflush(stdout);
    shell->terminal = pager ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
    shell->pager = shell->terminal >= 0 ? popen(pager, "we") : NULL;
    if (shell->pager)
        dup2(fileno(shell->pager), STDOUT_FILENO);
    else
        close_fd(shell->terminal);
}

static void pager_end(struct shell *shell)
{
    fflush(stdout);
    if (!shell->pager)
        return;
    dup2(shell->terminal, STDOUT_FILENO);
    close(shell->terminal);
    pclose(STEAL(shell->pager));
    clearerr(stdout); // the pager may have ended early
}

// Runs the statement. `name`: the file that has the SQL, or "".
static void statement_execute(struct shell *shell, const char *name, const char *sql)
{
    struct result_sets sets = {.form = &shell->form};
    interrupted = 0;
    int code =
        statements_run(shell->engine, name, sql, shell->asks ? &sets : &shell->sets, shell->timing);
    shell->failed |= code != EXIT_DONE;
    pager_end(shell);
    words_gather_temporary(shell);
}

static void functions_execute(struct shell *shell)
{
    pager_begin(shell);
    functions_print();
    pager_end(shell);
}

static void tables_execute(struct shell *shell, const char *name)
{
    pager_begin(shell);
    char verb[] = "tables";
    char *argv[] = {verb, (char *)(uintptr_t)name, NULL};
    optind = 0; // getopt() begins anew
    verb_tables.run(*name ? 2 : 1, argv);
    pager_end(shell);
}

static void modules_execute(struct shell *shell, const char *name)
{
    const struct sql_packages *packages = sql_engine_packages(shell->engine);
    pager_begin(shell);
    if (!*name)
        modules_print(packages);
    else if (!module_print(packages, name)) {
        CLEANUP(freep) char *near = module_nearest(packages, name);
        say("%s: no such module%s%s%s", name, near ? " (did you mean '" : "", near ? near : "",
            near ? "'?)" : "");
    }
    pager_end(shell);
}

static void file_execute(struct shell *shell, const char *path)
{
    CLEANUP(freep) char *text = text_read(path);
    if (text)
        statement_execute(shell, path, text);
    else
        say("%s: %s", path, strerror(errno));
}

static bool flag_set(const char *value, bool *ret)
{
    if (!str_eq(value, "on") && !str_eq(value, "off"))
        return false;
    *ret = str_eq(value, "on");
    return true;
}

static bool mode_set(struct shell *shell, const char *value)
{
    static const char *const modes[] = {"table", "csv", "json", "json-lines"};
    for (size_t i = 0; i < ELEMENTS(modes); i++)
        if (str_eq(modes[i], value)) {
            shell->form.format = (enum format)i;
            return true;
        }
    return false;
}

// Runs a line that begins with a dot. Returns false to end the shell.
static bool command_run(struct shell *shell, char *line)
{
    size_t n = strcspn(line, " \t");
    char *value = line + n + strspn(line + n, " \t");
    for (char *end = value + strlen(value); end > value && strchr(" \t;", end[-1]);)
        *--end = '\0';
    line[n] = '\0';
    bool good = true;
    if (str_eq(line, ".quit") || str_eq(line, ".exit"))
        return false;
    if (str_eq(line, ".help"))
        fputs(help, stdout);
    else if (str_eq(line, ".tables") || str_eq(line, ".schema"))
        tables_execute(shell, value);
    else if (str_eq(line, ".modules"))
        modules_execute(shell, value);
    else if (str_eq(line, ".functions"))
        functions_execute(shell);
    else if (str_eq(line, ".read") && *value)
        file_execute(shell, value);
    else if (str_eq(line, ".mode"))
        good = mode_set(shell, value);
    else if (str_eq(line, ".timer"))
        good = flag_set(value, &shell->timing);
    else if (str_eq(line, ".pager"))
        good = flag_set(value, &shell->pages);
    else
        good = false;
    if (!good)
        say("%s %s: not a command (see .help)", line, value);
    return true;
}

// Adds the statement to the history. Several lines become one line, unless a comment ends with its
// line.
static void statement_remember(struct shell *shell)
{
    CLEANUP(freep) char *text = shell->statement.size ? strdup(shell->statement.text) : NULL;
    if (!text)
        return;
    bool whole = !strstr(text, "--");
    char *line = text;
    for (char *end; (end = strchr(line, '\n'));) {
        *end = whole && end[1] ? ' ' : '\0';
        if (!whole)
            line_editor_remember(line);
        line = whole ? line : end + 1;
    }
    if (whole)
        line_editor_remember(text);
}

// Takes a line of input. Returns false to end the shell.
static bool line_take(struct shell *shell, char *line)
{
    char *begin = line + strspn(line, " \t");
    if (!shell->statement.size && *begin == '.') {
        line_editor_remember(line);
        return command_run(shell, begin);
    }
    if (!shell->statement.size && !*begin)
        return true;
    strbuf_addf(&shell->statement, "%s\n", line);
    if (shell->statement.failed || !sqlite3_complete(shell->statement.text))
        return true;
    statement_remember(shell);
    statement_execute(shell, "", shell->statement.text);
    strbuf_clear(&shell->statement);
    return true;
}

static void shell_close(struct shell *shell)
{
    line_editor_close();
    strbuf_done(&shell->statement);
    strset_done(&shell->names);
    word_vec_done(&shell->words);
}

int shell_run(struct sqlite3 *handle, struct sql_engine *engine, const char *name,
              enum format format, bool timing)
{
    CLEANUP(shell_close)
    struct shell shell = {.handle = handle,
                          .engine = engine,
                          .form = {.format = format, .userdata = &shell},
                          .timing = timing,
                          .pages = true,
                          .asks = isatty(STDIN_FILENO)};
    shell.sets.form = &shell.form;
    if (isatty(STDOUT_FILENO))
        shell.form.begin = pager_begin;
    CLEANUP(freep) char *history = shell.asks ? history_path() : NULL;
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    sqlite3_progress_handler(handle, WATCH_STEPS, statement_watch, NULL);
    words_gather(&shell);
    line_editor_open(shell.words.items, history);
    if (shell.asks)
        printf("%s: .help helps, .tables lists what there is, Ctrl-D ends\n", name);
    bool goes_on = true;
    while (goes_on) {
        CLEANUP(freep)
        char *line = line_editor_read(shell.statement.size ? "   ...> " : "mmsql> ");
        if (!line && interrupted) {
            interrupted = 0;
            statement_remember(&shell);
            strbuf_clear(&shell.statement);
            putchar('\n');
            clearerr(stdin);
            continue;
        }
        if (!line)
            break;
        goes_on = line_take(&shell, line);
    }
    if (shell.statement.size) // a last statement without a semicolon
        statement_execute(&shell, "", shell.statement.text);
    if (goes_on && shell.asks)
        putchar('\n');
    return shell.failed && !shell.asks ? EXIT_FAILED : EXIT_DONE;
}
