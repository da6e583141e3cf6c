// SPDX-License-Identifier: Apache-2.0
#include "producer/cli/process_lists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"

// Calls `take` for each word between commas.
static int take_words(const char *text, int (*take)(void *to, const char *word, struct err *err),
                      void *to, struct err *err)
{
    char *copy = strdup(text), *rest = copy;
    int r = copy ? 0 : -ENOMEM;
    for (char *word; r == 0 && (word = strsep(&rest, ","));)
        if (*word)
            r = take(to, word, err);
    free(copy);
    return r;
}

static int add_pid(void *to, const char *word, struct err *err)
{
    uint32_t pid;
    if (str_parse_u32(word, &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return err_set(err, -EINVAL, "--pid: \"%s\" is not a process id", word);
    return list_pids_push(to, pid);
}

static int add_name(void *to, const char *word, struct err *err)
{
    char *copy = strdup(word);
    int r = copy ? list_names_push(to, copy) : -ENOMEM;
    (void)err;
    if (r < 0)
        free(copy);
    return r;
}

int list_pids_take(struct list_pids *list, const char *text, struct err *err)
{
    return take_words(text, add_pid, list, err);
}

int list_names_take(struct list_names *list, const char *text, struct err *err)
{
    return take_words(text, add_name, list, err);
}

void list_names_free(struct list_names *list)
{
    vec_foreach(list, name)
        free(*name);
    list_names_done(list);
}
