// SPDX-License-Identifier: Apache-2.0
//
// Installed apps are in folders with the names of their packages. Preinstalled apps are in other
// folders, so known_apps lists the preinstalled apps, as in Perfetto.
#include "converter/import/profile/java_packages.h"

#include <string.h>

#include "common/elements.h"
#include "common/str.h"

struct known_app {
    const char *path, *package;
    bool anywhere; // matches anywhere in a path, not only at its start
};

static const struct known_app known_apps[] = {
    {"/system_ext/priv-app/SystemUIGoogle/SystemUIGoogle.apk", "com.android.systemui", false},
    {"/product/priv-app/Phonesky/Phonesky.apk", "com.android.vending", false},
    {"/product/app/Maps/Maps.apk", "com.google.android.apps.maps", false},
    {"/system_ext/priv-app/NexusLauncherRelease/NexusLauncherRelease.apk",
     "com.google.android.apps.nexuslauncher", false},
    {"/product/app/Photos/Photos.apk", "com.google.android.apps.photos", false},
    {"/product/priv-app/WellbeingPrebuilt/WellbeingPrebuilt.apk",
     "com.google.android.apps.wellbeing", false},
    {"DevicePersonalizationPrebuilt", "com.google.android.as", true},
    {"MatchMaker", "com.google.android.as", true},
    {"DeviceIntelligenceNetworkPrebuilt", "com.google.android.as.oss", true},
    {"SettingsIntelligenceGooglePrebuilt", "com.google.android.settings.intelligence", true},
    {"/product/app/PrebuiltGmail/PrebuiltGmail.apk", "com.google.android.gm", false},
    {"PrebuiltGmsCore", "com.google.android.gms", true},
    {"com.google.android.gms", "com.google.android.gms", true},
    {"/product/priv-app/Velvet/Velvet.apk", "com.google.android.googlequicksearchbox", false},
    {"/product/app/LatinIMEGooglePrebuilt/LatinIMEGooglePrebuilt.apk",
     "com.google.android.inputmethod.latin", false},
    {"/product/app/PrebuiltBugle/PrebuiltBugle.apk", "com.google.android.apps.messaging", false},
};

// Reads the package from "PACKAGE-XYZ/base.apk", which may be in a folder "~~ABC".
static bool folder_package(const char *path, const char **ret, size_t *ret_size)
{
    if (*path == '~') {
        path = strchr(path, '/');
        if (!path)
            return false;
        path++;
    }
    size_t size = strcspn(path, "-/");
    if (path[size] != '-' || !strchr(path + size, '/'))
        return false;
    *ret = path;
    *ret_size = size;
    return true;
}

bool java_package_of(const char *path, const char **ret, size_t *ret_size)
{
    static const char apps[] = "/data/app/";
    static const char extracted[] = "dex extracted in memory from /data/app/";
    for (size_t i = 0; i < ELEMENTS(known_apps); i++) {
        const struct known_app *app = &known_apps[i];
        if (app->anywhere ? !strstr(path, app->path) : !str_starts_with(path, app->path))
            continue;
        *ret = app->package;
        *ret_size = strlen(app->package);
        return true;
    }
    if (str_starts_with(path, apps))
        return folder_package(path + sizeof(apps) - 1, ret, ret_size);
    const char *in = strstr(path, extracted);
    return in && folder_package(in + sizeof(extracted) - 1, ret, ret_size);
}
