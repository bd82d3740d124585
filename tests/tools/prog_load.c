/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads libibverbs and librdmacm as NCCL, PyTorch and brpc do, by dlopen() and dlvsym(), and finds the adapter by what
 * they give. Run by test_load.sh, with UROCE_DEVICES=lo. */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static bool check(bool good, const char *what)
{
	if (!good) {
		printf("not ok - %s (%s)\n", what, dlerror() ?: "no message");
		failed = 1;
	}
	return good;
}

static void *load(const char *file)
{
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	check(handle, file);
	return handle;
}

static void look(const char *file)
{
	void *handle = load(file);
	struct ibv_device **(*list)(int *) = dlvsym(handle, "ibv_get_device_list", "IBVERBS_1.1");
	void (*drop)(struct ibv_device **) = dlsym(handle, "ibv_free_device_list");
	struct ibv_context *(*open)(struct ibv_device *) = dlvsym(handle, "ibv_open_device", "IBVERBS_1.1");
	int (*close)(struct ibv_context *) = dlvsym(handle, "ibv_close_device", "IBVERBS_1.1");
	struct ibv_device **devices;
	struct ibv_context *context;
	int n = 0;

	if (!check(list && drop && open && close && dlvsym(handle, "ibv_reg_mr_iova2", "IBVERBS_1.8"), "its functions"))
		return;
	devices = list(&n);
	if (!check(devices && n == 1 && strcmp(devices[0]->name, "uroce0") == 0, "the device"))
		return;
	context = open(devices[0]);
	check(context && close(context) == 0, "to open it");
	drop(devices);
	check(dlclose(handle) == 0, "to let the library go");
}

int main(void)
{
	struct rdma_event_channel *(*create)(void);
	void (*destroy)(struct rdma_event_channel *);
	struct rdma_event_channel *channel;
	void *cm;

	look("libibverbs.so.1");
	look("libibverbs.so");
	look("/anywhere/libibverbs.so.1");
	cm = load("librdmacm.so.1");
	create = dlvsym(cm, "rdma_create_event_channel", "RDMACM_1.0");
	destroy = dlvsym(cm, "rdma_destroy_event_channel", "RDMACM_1.0");
	if (check(create && destroy, "librdmacm's functions")) {
		channel = create();
		if (check(channel, "an event channel"))
			destroy(channel);
	}
	/* What is not ours is found as before: this one only where the program itself says that its libraries are
	 * (RUNPATH). A sanitizer's dlopen() does not know who calls. */
	if (!strchr(getenv("UROCE_PRELOAD") ?: "", ':'))
		load("liburoce-rsocket.so");
	check(!dlopen("libnothing.so.1", RTLD_NOW) && strstr(dlerror(), "libnothing.so.1"),
	      "a library that is not there");
	check(load("libm.so.6") && dlopen(NULL, RTLD_NOW), "others");
	return failed;
}
