/* SPDX-License-Identifier: BSD-2-Clause */
/* The interpreter's functions are looked up: a process without a Python interpreter has no Python frame. */
#include "check/python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static struct {
	int (*is_initialized)(void);
	int (*has_gil)(void);
	void *(*frame)(void); /* borrowed reference */
	int (*line)(void *frame);
	void *(*code)(void *frame);
	void *(*attribute)(void *object, const char *name);
	const char *(*text)(void *string);
	void (*drop)(void *object);
	void (*error_save)(void **type, void **value, void **traceback);
	void (*error_restore)(void *type, void *value, void *traceback);
} py;
static bool is_there;

static void python_find(void)
{
	const struct {
		void **to;
		const char *name;
	} symbols[] = {
		{(void **)&py.is_initialized, "Py_IsInitialized"},
		{(void **)&py.has_gil, "PyGILState_Check"},
		{(void **)&py.frame, "PyEval_GetFrame"},
		{(void **)&py.line, "PyFrame_GetLineNumber"},
		{(void **)&py.code, "PyFrame_GetCode"},
		{(void **)&py.attribute, "PyObject_GetAttrString"},
		{(void **)&py.text, "PyUnicode_AsUTF8"},
		{(void **)&py.drop, "Py_DecRef"},
		{(void **)&py.error_save, "PyErr_Fetch"},
		{(void **)&py.error_restore, "PyErr_Restore"},
	};

	is_there = true;
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		is_there &= (*symbols[i].to = dlsym(RTLD_DEFAULT, symbols[i].name)) != NULL;
}

static void attribute_text(void *object, const char *name, char *to, size_t room)
{
	void *value = py.attribute(object, name);
	const char *text = value ? py.text(value) : NULL;

	snprintf(to, room, "%s", text ? text : "?");
	if (value)
		py.drop(value);
}

static void describe(void *frame, char *text, size_t room)
{
	char function[64], path[256];
	const char *slash;
	void *code = py.code(frame);

	if (!code)
		return;
	attribute_text(code, "co_name", function, sizeof(function));
	attribute_text(code, "co_filename", path, sizeof(path));
	py.drop(code);
	slash = strrchr(path, '/');
	snprintf(text, room, "%s (%.120s:%d)", function, slash ? slash + 1 : path, py.line(frame));
}

void python_frame(char *text, size_t room)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void *type, *value, *traceback, *frame;

	*text = 0;
	pthread_once(&once, python_find);
	if (!is_there || !py.is_initialized() || !py.has_gil())
		return;
	frame = py.frame();
	if (!frame)
		return;
	py.error_save(&type, &value, &traceback); /* an exception may be pending */
	describe(frame, text, room);
	py.error_restore(type, value, traceback);
}
