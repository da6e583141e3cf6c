// SPDX-License-Identifier: Apache-2.0
// Programs with known allocations, one a mode: Allocations MODE N.
import java.io.InputStream;
import java.lang.invoke.MethodHandles;
import java.util.ArrayList;
import java.util.List;

public class Allocations {
    static volatile Object sink;
    static final List<Object> kept = new ArrayList<>();

    static void ints(int n) { for (int i = 0; i < n; i++) sink = new int[100]; }
    static void bytes(int n) { for (int i = 0; i < n; i++) sink = new byte[1000]; }
    static void keep(int n) { for (int i = 0; i < n; i++) kept.add(new long[50]); }

    // Garbage, and then a collection that finds it, if there is one; VMs tell of it a little later.
    static void garbage(int n) throws Exception {
        ints(n);
        sink = null;
        for (int i = 0; i < 3; i++) { System.gc(); Thread.sleep(100); }
    }

    static void deep(int depth, int n) {
        if (depth > 0) deep(depth - 1, n);
        else ints(n);
    }

    static void inThreads(int n, int each) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < n; i++) threads.add(new Thread(() -> ints(each), "worker-" + i));
        for (Thread t : threads) t.start();
        for (Thread t : threads) t.join();
    }

    static void strangeNames(int n) throws Exception {
        for (String name : new String[] {"two\nlines", "a], jclass[b file: c], size[7", "", "\u00e4\u4e2d"}) {
            Thread t = new Thread(() -> ints(n), name);
            t.start();
            t.join();
        }
    }

    static class Loader extends ClassLoader {
        final byte[] code;
        Loader(byte[] code) { super(null); this.code = code; }
        Class<?> load() { return defineClass("Tiny", code, 0, code.length); }
    }

    static void classes(int n) throws Exception {
        byte[] code;
        try (InputStream in = Allocations.class.getResourceAsStream("Tiny.class")) { code = in.readAllBytes(); }
        for (int i = 0; i < n; i++) sink = new Loader(code).load().getDeclaredConstructor().newInstance();
    }

    static void hidden(int n) throws Exception {
        byte[] code;
        try (InputStream in = Allocations.class.getResourceAsStream("Tiny.class")) { code = in.readAllBytes(); }
        for (int i = 0; i < n; i++)
            sink = MethodHandles.lookup().defineHiddenClass(code, true).lookupClass().getDeclaredConstructor().newInstance();
    }

    // By reflection: the source is compiled by JDKs without virtual threads, too.
    static void virtual(int n, int each) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < n; i++)
            threads.add((Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
                .invoke(null, (Runnable) () -> { ints(each); Thread.yield(); ints(each); }));
        for (Thread t : threads) t.join();
    }

    static void forever() throws Exception {
        System.out.println("ready");
        System.out.flush();
        for (;;) {
            ints(200);
            keep(1);
            Thread.sleep(1);
        }
    }

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[1]);
        switch (args[0]) {
            case "both": ints(n); bytes(2 * n); break;
            case "keep": ints(n); keep(n); break;
            case "garbage": garbage(n); break;
            case "deep": deep(200, n); break;
            case "threads": inThreads(64, n); break;
            case "names": strangeNames(n); break;
            case "classes": classes(n); break;
            case "hidden": hidden(n); break;
            case "virtual": virtual(100, n); break;
            case "halt": ints(n); Runtime.getRuntime().halt(3); break;
            case "forever": forever(); break;
            default: throw new IllegalArgumentException(args[0]);
        }
        System.out.println("done");
    }
}
