// SPDX-License-Identifier: Apache-2.0
public class Tiny {
    public Object inner = new double[10];
}
