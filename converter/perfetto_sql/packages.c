// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/packages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/folder.h"
#include "common/str.h"
#include "converter/perfetto_sql/sql_definition.h"
#include "converter/sql/sql.h"

#define MODULE_BYTES_MAX (16 << 20)
#define FOLDERS_MAX      16 // nested folders

static void module_done(struct sql_package_module *module)
{
    free(module->name);
    free(module->sql);
    free(module->failure);
}

static int module_add(struct sql_packages *packages, const char *name, const char *sql)
{
    struct sql_package_module module = {.name = strdup(name), .sql = strdup(sql)};
    int r = module.name && module.sql ? sql_package_module_vec_push(&packages->modules, module)
                                      : -ENOMEM;
    if (r < 0)
        module_done(&module);
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct sql_package_module *)a)->name,
                  ((const struct sql_package_module *)b)->name);
}

static void sort(struct sql_packages *packages)
{
    if (packages->modules.n)
        qsort(packages->modules.items, packages->modules.n, sizeof(*packages->modules.items),
              by_name);
}

static bool is_in_package(const char *module, const char *package)
{
    size_t n = strlen(package);
    return strncasecmp(module, package, n) == 0 && (module[n] == '.' || !module[n]);
}

static bool package_has(const struct sql_packages *packages, const char *package)
{
    vec_foreach(&packages->modules, module)
        if (is_in_package(module->name, package))
            return true;
    return false;
}

int packages_add_library(struct sql_packages *packages)
{
    int r = 0;
    for (const struct sql_module *module = sql_modules; module->name && r == 0; module++)
        r = module_add(packages, module->name, module->sql);
    vec_foreach(&packages->modules, module)
        module->is_own = true;
    sort(packages);
    packages->has_prelude = package_has(packages, "prelude");
    return r;
}

static void package_remove(struct sql_packages *packages, const char *package)
{
    size_t kept = 0;
    for (size_t i = 0; i < packages->modules.n; i++) {
        struct sql_package_module *module = &packages->modules.items[i];
        if (is_in_package(module->name, package))
            module_done(module);
        else
            packages->modules.items[kept++] = *module;
    }
    packages->modules.n = kept;
}

// The folder that is being read, with the beginning of its modules' names.
struct folder {
    struct sql_packages *packages;
    const char *path; // for people
    struct err *err;
    unsigned depth;
};

static int folder_read(const struct folder *folder, int fd, const char *prefix);

static int file_add(const struct folder *folder, int dir_fd, const char *entry, const char *prefix)
{
    CLEANUP(close_fdp) int fd = openat(dir_fd, entry, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CLEANUP(strbuf_done) struct strbuf name = {0}, sql = {0};
    int r = fd < 0 ? -errno : fd_read_all(fd, MODULE_BYTES_MAX, &sql);
    strbuf_addf(&name, "%s%s%.*s", prefix, *prefix ? "." : "", (int)strlen(entry) - 4, entry);
    if (r == 0)
        r = name.failed || sql.failed
                ? -ENOMEM
                : module_add(folder->packages, name.text, sql.text ? sql.text : "");
    return r < 0 ? err_errno(folder->err, r, "%s: module %s", folder->path, entry) : 0;
}

static int below_read(const struct folder *folder, int dir_fd, const char *entry,
                      const char *prefix)
{
    struct folder below = *folder;
    CLEANUP(strbuf_done) struct strbuf name = {0};
    strbuf_addf(&name, "%s%s%s", prefix, *prefix ? "." : "", entry);
    if (++below.depth > FOLDERS_MAX)
        return err_set(folder->err, -ELOOP, "%s: more than %d folders, one in the other",
                       folder->path, FOLDERS_MAX);
    int fd = openat(dir_fd, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(folder->err, -errno, "%s: %s", folder->path, entry);
    return name.failed ? close_fd(fd), -ENOMEM : folder_read(&below, fd, name.text);
}

// Reads a folder. Takes ownership of `fd`.
static int folder_read(const struct folder *folder, int fd, const char *prefix)
{
    DIR *dir CLEANUP(closedirp) = fdopendir(fd);
    int r = dir ? 0 : (close_fd(fd), err_errno(folder->err, -errno, "%s", folder->path));
    struct stat st;
    const struct dirent *entry;
    while (r == 0 && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (*name == '.' || fstatat(fd, name, &st, 0) < 0)
            continue;
        if (S_ISDIR(st.st_mode))
            r = below_read(folder, fd, name, prefix);
        else if (S_ISREG(st.st_mode) && str_ends_with(name, ".sql"))
            r = file_add(folder, fd, name, prefix);
    }
    return r;
}

static int folder_open(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_errno(err, -errno, "%s", path) : fd;
}

// Returns the last name of a path, without slashes after it; empty for "/".
static struct sql_part last_name(const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    const char *slash = n ? memrchr(path, '/', n) : NULL, *name = slash ? slash + 1 : path;
    return (struct sql_part){name, (size_t)(path + n - name)};
}

static bool is_dots(struct sql_part name)
{
    return name.size <= 2 && strspn(name.text, ".") >= name.size;
}

// Finds the name of a folder. For "." and "..", finds the name that the folder has in its parent.
static int folder_name(const char *path, char **ret, struct err *err)
{
    struct sql_part name = last_name(path);
    bool has_name = !sql_part_is_empty(name) && !is_dots(name);
    CLEANUP(freep) char *real = has_name ? NULL : realpath(path, NULL);
    if (!has_name && !real)
        return err_errno(err, -errno, "%s", path);
    if (real)
        name = last_name(real);
    if (sql_part_is_empty(name)) {
        err_set(err, -EINVAL, "%s: this folder has no name for a package", path);
        return err_hint(err, -EINVAL, "DIR@NAME gives one");
    }
    *ret = strndup(name.text, name.size);
    return *ret ? 0 : err_errno(err, -ENOMEM, "%s", path);
}

int packages_add(struct sql_packages *packages, const char *argument, bool overrides,
                 struct err *err)
{
    const char *at = strrchr(argument, '@');
    if (at && (!at[1] || strchr(at, '/')))
        at = NULL;
    CLEANUP(freep) char *path = at ? strndup(argument, (size_t)(at - argument)) : strdup(argument);
    CLEANUP(freep) char *name = at ? strdup(at + 1) : NULL;
    if (!path || (at && !name))
        return err_errno(err, -ENOMEM, "%s", argument);
    int r = at ? 0 : folder_name(path, &name, err);
    if (r < 0)
        return r;
    bool is_there = package_has(packages, name);
    if (is_there && !overrides) {
        err_set(err, -EEXIST, "%s: there is a package %s already", path, name);
        return err_hint(err, -EEXIST, "--override-sql-package replaces it");
    }
    int fd = folder_open(path, err);
    if (fd < 0)
        return fd;
    package_remove(packages, name);
    struct folder folder = {packages, path, err, 0};
    r = folder_read(&folder, fd, name);
    sort(packages);
    return r;
}

int packages_override_all(struct sql_packages *packages, const char *path, struct err *err)
{
    int fd = folder_open(path, err);
    if (fd < 0)
        return fd;
    packages_done(packages);
    struct folder folder = {packages, path, err, 0};
    int r = folder_read(&folder, fd, "");
    sort(packages);
    packages->has_prelude = package_has(packages, "prelude");
    packages->is_foreign = true;
    return r;
}

void packages_done(struct sql_packages *packages)
{
    vec_foreach(&packages->modules, module)
        module_done(module);
    sql_package_module_vec_done(&packages->modules);
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

int packages_near(const struct sql_packages *packages, const char *name,
                  const char *ret[MODULES_NEAR_MAX])
{
    size_t n = packages->modules.n;
    int found = 0;
    CLEANUP(freep) const char **names = n ? malloc(n * sizeof(*names)) : NULL;
    for (size_t i = 0; names && i < n; i++)
        names[i] = packages->modules.items[i].name;
    if (names && (ret[0] = str_nearest(name, names, n)))
        found = 1;
    const char *nearest = found ? ret[0] : "";
    for (size_t i = 0; names && i < n && found < MODULES_NEAR_MAX; i++)
        if (strcasecmp(last_part(names[i]), last_part(name)) == 0 && names[i] != nearest)
            ret[found++] = names[i];
    return found;
}

bool module_matches(const struct sql_package_module *module, const char *pattern, size_t size)
{
    bool is_wild = size > 0 && pattern[size - 1] == '*';
    size_t n = is_wild ? size - 1 : size;
    return strncasecmp(module->name, pattern, n) == 0 && (is_wild || !module->name[n]);
}
