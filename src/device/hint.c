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
#include "base/log.h"
#include "device/device.h"

#define NAMES_MOST 512

/* Beginnings of names of RDMA devices: a driver, or the bus. */
static const char *const families[] = {"mlx4_",	 "mlx5_", "bnxt_re", "cxgb4_", "efa_", "hns_", "ionic_", "irdma",
				       "ocrdma", "qedr",  "rdma_en", "rocep",  "rxe",  "siw",  "uroce"};
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

static void hint_say(const char *word, size_t length, struct device **list, int count)
{
	char names[NAMES_MOST] = "none";
	size_t at = 0;

	for (int i = 0; i < count && at < sizeof(names); i++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? " " : "", list[i]->base.name);
	log_warn("there is no device %.*s, only: %s. UROCE_DEVICES=%s=%.*s gives one this name (see uroce devices)",
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

/* Reads the command line without its first word, with blanks between the words. */
static void read_words(char *text, size_t room)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, room - 1) : 0;

	if (fd >= 0)
		close(fd);
	text[max_of(n, (ssize_t)0)] = 0;
	memset(text, ' ', strlen(text));
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
}

void hint_missing(struct device **list, int count)
{
	static atomic_flag looked = ATOMIC_FLAG_INIT;
	char words[4096];

	if (atomic_flag_test_and_set(&looked))
		return;
	read_words(words, sizeof(words));
	if (hint_look(words, list, count))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = getenv(variables[i]);

		if (value && *value != '^' && hint_look(value, list, count)) /* '^': all but these */
			return;
	}
}
