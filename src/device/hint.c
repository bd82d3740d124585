/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that finds no device of the name that it was given says that there is no RDMA device, or nothing. So the
 * list's reader gets a hint, if a word of the command line, or a variable of a communication library, looks like a
 * device name. */
#include "device/hint.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/config.h"
#include "base/log.h"
#include "device/device.h"

#define NAMES_MOST 512

/* Beginnings of names of RDMA devices: a driver, or the bus. */
static const char *const families[] = {"mlx4_", "mlx5_",  "mlx5_ib", "bnxt_re", "cxgb4_", "efa_", "hns_", "ionic_",
				       "irdma", "ocrdma", "qedr",    "rdma_en", "rocep",  "rxe",  "siw",  "uroce"};
static const char *const variables[] = {"NCCL_IB_HCA", "UCX_NET_DEVICES", "GLOO_IB_DEVICE", "FI_OPX_HFI_SELECT"};

static bool is_device_name(const char *word, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		size_t n = strlen(families[i]);

		if (length > n && strncmp(word, families[i], n) == 0 && isdigit((unsigned char)word[n]))
			return true;
	}
	return false;
}

static bool name_listed(const char *word, size_t length, struct device **list, int count)
{
	for (int i = 0; i < count; i++)
		if (strlen(list[i]->base.name) == length && strncmp(list[i]->base.name, word, length) == 0)
			return true;
	return false;
}

/* The command line, with blanks between the words; "": unknown. */
static char command[4096];

/* True for a name that devices get from --adapter=ib, if it is not in force, nor a name of the user's own. */
static bool wants_infiniband(const char *word, struct device **list, int count)
{
	static const char name[] = "mlx5_ib";
	const char *devices = config_string(CONFIG_DEVICES);

	return !strncmp(word, name, strlen(name)) && !(devices && strchr(devices, '=')) &&
	       (!count || strncmp(list[0]->base.name, name, strlen(name)));
}

static void hint_say(const char *word, size_t length, struct device **list, int count)
{
	char names[NAMES_MOST] = "none";
	size_t at = 0;

	for (int i = 0; i < count && at < sizeof(names); i++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? " " : "", list[i]->base.name);
	if (wants_infiniband(word, list, count)) {
		log_warn("there is no device %.*s, only: %s. It is the name of an InfiniBand port: uroce run "
			 "--adapter=ib %s",
			 (int)length, word, names, *command ? command : "PROGRAM");
		return;
	}
	log_warn("there is no device %.*s, only: %s. Name one of these, or give one this name: "
		 "UROCE_DEVICES=%s=%.*s (see uroce devices)",
		 (int)length, word, names, count ? list[0]->netif_name : "lo", (int)length, word);
}

/* True if a name was found that is not listed. */
static bool hint_look(const char *text, struct device **list, int count)
{
	static const char in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

	while (*text) {
		size_t length = strspn(text, in_names);
		const char *word = text;

		text += length ? length : 1;
		if (length > 2 && !strncmp(word, "-d", 2)) { /* "-dmlx5_0" */
			word += 2;
			length -= 2;
		}
		if (!is_device_name(word, length) || name_listed(word, length, list, count))
			continue;
		hint_say(word, length, list, count);
		return true;
	}
	return false;
}

/* Reads the command line. Returns what is behind the first word. */
static const char *read_command(void)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, command, sizeof(command) - 1) : 0;
	size_t length = (size_t)max_of(n, (ssize_t)0), first;

	if (fd >= 0)
		close(fd);
	command[length] = 0;
	first = strlen(command);
	for (size_t i = 0; i + 1 < length; i++) /* behind the last word the zero stays */
		if (!command[i])
			command[i] = ' ';
	return command + first;
}

/* True if the first word, up to `end`, is the command `uroce` itself: the others are for the program that it starts. */
static bool is_our_command(const char *end)
{
	const char *slash = memrchr(command, '/', (size_t)(end - command)), *name = slash ? slash + 1 : command;
	size_t length = (size_t)(end - name);

	return length == strlen("uroce") && !strncmp(name, "uroce", length);
}

void hint_missing(struct device **list, int count)
{
	static atomic_flag looked = ATOMIC_FLAG_INIT;
	const char *words;

	if (atomic_flag_test_and_set(&looked))
		return;
	words = read_command();
	if (is_our_command(words) || hint_look(words, list, count))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = getenv(variables[i]);

		if (value && *value != '^' && hint_look(value, list, count)) /* '^': all but these */
			return;
	}
}
