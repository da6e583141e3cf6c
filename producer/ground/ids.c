// SPDX-License-Identifier: Apache-2.0
//
// setfsuid() does not report failures. Therefore the present ids are read back by setting an id
// that is never valid. The group is set first, because the group cannot be changed back without the
// uid's rights.
#include "producer/ground/ids.h"

#include <errno.h>
#include <sys/fsuid.h>

static uid_t current_uid(void)
{
    return (uid_t)setfsuid((uid_t)-1);
}

static gid_t current_gid(void)
{
    return (gid_t)setfsgid((gid_t)-1);
}

int foreign_ids_take(uid_t uid, gid_t gid, struct foreign_ids *ret_own)
{
    const struct foreign_ids own = {current_uid(), current_gid()};
    setfsgid(gid);
    setfsuid(uid);
    if (current_uid() != uid || current_gid() != gid) {
        foreign_ids_return(&own);
        return -EPERM;
    }
    *ret_own = own;
    return 0;
}

void foreign_ids_return(const struct foreign_ids *own)
{
    setfsuid(own->uid);
    setfsgid(own->gid);
}
