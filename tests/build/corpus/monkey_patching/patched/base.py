# SPDX-License-Identifier: Apache-2.0
class Scheme:
    order = 1

    def weight(self):
        return self.order


def coefficient():
    return 1


N = 1
