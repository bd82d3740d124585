/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of files, each with its text or the function that writes it. tree.c looks them up. */
#ifndef UROCE_DEVICE_TREE_FILES_H
#define UROCE_DEVICE_TREE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "device/tree_names.h"

struct device;
struct tree_counter;

struct tree_place {
	struct device *device; /* NULL: no device in the path */
	unsigned index;	       /* number in the path */
};

/* Writes the contents of a file to `out`. 0 or an errno; ENOENT: this device has no such file. */
typedef int tree_fill(FILE *out, const struct tree_place *p);

/* A path with wildcards, which are directories if more follows: %d, %v, %m for device names (mlx5_0, uverbs0,
 * umad0), %p for a PCI address, %i for an interface, %g for 0 to DEVICE_GIDS - 1. */
struct tree_row {
	const char *pattern;
	enum tree_kind kind;
	const char *text;
	tree_fill *fill;
	const struct tree_counter *counter; /* of a file that changes; tree_fill_counter() writes it */
	bool is_mad;			    /* device for management datagrams */
};

/* Rows with the same beginning are adjacent. */
extern const struct tree_row tree_rows[];
extern const size_t tree_row_count;

/* Writes the value of a counter. Always 0. */
int tree_fill_counter(FILE *out, const struct tree_place *p, const struct tree_counter *counter);

/* Minor number of a device's uverbs and umad devices. */
unsigned tree_minor(const struct device *d);
unsigned tree_mad_minor(const struct device *d);
/* PCI address of a device, such as f0ce:01:00.0: one bus for each device, like adapters in slots of their own. */
void tree_pci_address(const struct device *d, char *buffer, size_t size);

#endif
