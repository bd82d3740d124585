# SPDX-License-Identifier: BSD-2-Clause
from uroce import main

main()
