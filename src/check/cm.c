/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/cm.h"

#include "check/objects.h"
#include "check/peers.h"
#include "check/races.h"

void check_tells(void)
{
	peers_told();
}

void check_heard(void)
{
	peers_settle();
	lock_take(&objects_lock);
	races_heard_all();
	lock_drop(&objects_lock);
}
