/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce link`: takes ports down and up, like unplugging a cable. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/library.h"
#include "tools/run/devices.h"

static int show(const struct command *command)
{
	struct device_view *views;
	const char *why = NULL;
	int count = devices_view(&views, &why);

	if (count < 0)
		return complain(command, "%s", why);
	for (int i = 0; i < count; i++)
		printf("%-12s %s\n", views[i].name, views[i].port.state == IBV_PORT_ACTIVE ? "up" : "down");
	free(views);
	return EXIT_SUCCESS;
}

static int set(const struct command *command, const char *device, bool up)
{
	int error = library.link_set(device, up);

	if (error == -ENODEV)
		return complain(command, "there is no device %s: `uroce link` lists them, UROCE_DEVICES names them",
				device);
	if (error)
		return complain(command, "the state of %s cannot be saved: %s", device, strerror(-error));
	return EXIT_SUCCESS;
}

int link_command(const struct command *command, int argc, char **argv)
{
	bool up = argc > 1 && !strcmp(argv[1], "up");
	const char *why;
	int status = EXIT_SUCCESS;

	if (argc == 1)
		return show(command);
	if (!up && strcmp(argv[1], "down") != 0)
		return wrong_usage(command, "'%s' is neither down nor up", argv[1]);
	if (argc == 2)
		return wrong_usage(command, "which device?");
	why = library_open();
	if (why)
		return complain(command, "%s", why);
	for (int i = 2; i < argc; i++)
		status |= set(command, argv[i], up);
	return status;
}
