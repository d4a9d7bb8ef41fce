import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.security.SecureRandom;
import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Starts a server once and ends it, so that this JVM has loaded and compiled what a start takes.
 * Then it waits for the configuration of the server that it runs for good, by that server's own
 * main class.
 *
 * <p>Arguments: the main class; a configuration; a file to make when the first server has ended.
 * Lines are read of standard input: an empty one ends the first server. The other one has the
 * second server's configuration, its folder for temporary files, and an agent as -javaagent takes
 * it, if it has one, with tabs between them.
 */
public final class Restorable implements Runnable {
    private final Method method;
    private final Object server;
    private final String argument;

    private Restorable(Method method, Object server, String argument) {
        this.method = method;
        this.server = server;
        this.argument = argument;
    }

    public static void main(String[] arguments) throws Exception {
        String main = arguments[0];
        if (main.equals("kafka.Kafka")) {
            startAndEndKafka(arguments[1]);
        } else {
            startAndEndZooKeeper(arguments[1]);
        }
        System.gc();
        new File(arguments[2]).createNewFile();
        String[] given = nextLine().split("\t");
        System.setProperty("java.io.tmpdir", given[1]);
        seedRandomNumbers();
        if (given.length > 2) {
            load(given[2]);
        }
        Method start = Class.forName(main).getMethod("main", new Class[] {String[].class});
        // This thread has drawn numbers, so it has a seed of its own.
        inThread("main of " + main, start, null, given[0]);
    }

    private static void startAndEndKafka(String configuration) throws Exception {
        Object server = kafka(configuration);
        call(server, "startup");
        nextLine();
        call(server, "shutdown");
        call(server, "awaitShutdown");
    }

    private static Object kafka(String configuration) throws Exception {
        Properties properties = new Properties();
        InputStream file = new FileInputStream(configuration);
        properties.load(file);
        file.close();
        Class[] takes = new Class[] {Properties.class};
        Object[] given = new Object[] {properties};
        try {
            Class upTo27 = Class.forName("kafka.server.KafkaServerStartable");
            return upTo27.getMethod("fromProps", takes).invoke(null, given);
        } catch (ClassNotFoundException since28) {
            Class kafka = Class.forName("kafka.Kafka$");
            Method build = kafka.getDeclaredMethod("buildServer", takes);
            build.setAccessible(true);
            return build.invoke(kafka.getField("MODULE$").get(null), given);
        }
    }

    private static void startAndEndZooKeeper(String configuration) throws Exception {
        Class zooKeeper = Class.forName("org.apache.zookeeper.server.ZooKeeperServerMain");
        Object server = zooKeeper.getConstructor(new Class[0]).newInstance(new Object[0]);
        Class[] takes = new Class[] {String[].class};
        Method run = zooKeeper.getDeclaredMethod("initializeAndRun", takes);
        run.setAccessible(true);
        Thread thread = inThread("first ZooKeeper", run, server, configuration);
        nextLine();
        call(server, "shutdown");
        thread.join();
    }

    /** Calls the method. It belongs to this class, since a restored JVM may find no other one. */
    public void run() {
        try {
            method.invoke(server, new Object[] {new String[] {argument}});
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static Thread inThread(String name, Method method, Object server, String argument) {
        Thread thread = new Thread(new Restorable(method, server, argument), name);
        thread.start();
        return thread;
    }

    /**
     * Gives threads that are still to come other seeds. Else all JVMs of an image draw the same
     * numbers, and a leader gives the same names to fetch sessions in each of its lives.
     */
    private static void seedRandomNumbers() throws Exception {
        Class type = Class.forName("sun.misc.Unsafe");
        Field instance = type.getDeclaredField("theUnsafe");
        instance.setAccessible(true);
        Object unsafe = instance.get(null);
        Class[] takes = new Class[] {Field.class};
        Object[] seeder = new Object[] {ThreadLocalRandom.class.getDeclaredField("seeder")};
        Object base = type.getMethod("staticFieldBase", takes).invoke(unsafe, seeder);
        Object offset = type.getMethod("staticFieldOffset", takes).invoke(unsafe, seeder);
        Method read = type.getMethod("getObject", new Class[] {Object.class, long.class});
        AtomicLong seed = (AtomicLong) read.invoke(unsafe, new Object[] {base, offset});
        seed.set(new SecureRandom().nextLong());
    }

    /** Loads an agent as jcmd's JVMTI.agent_load does. It transforms classes that are loaded too. */
    private static void load(String agent) {
        String said;
        try {
            said = agentLoad(agent);
        } catch (Exception error) {
            error.printStackTrace();
            said = error.toString();
        }
        if (!said.trim().equals("return code: 0")) {
            System.err.println("agent " + agent + " cannot be loaded: " + said);
            // Threads of the first server may be there still.
            Runtime.getRuntime().halt(1);
        }
    }

    private static String agentLoad(String agent) throws Exception {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        ObjectName commands = new ObjectName("com.sun.management:type=DiagnosticCommand");
        String[] jarAndOptions = agent.split("=", 2);
        // Without quotes the options would end before their next '='.
        jarAndOptions[1] = '"' + jarAndOptions[1] + '"';
        Object[] given = new Object[] {jarAndOptions};
        String[] types = new String[] {String[].class.getName()};
        return (String) server.invoke(commands, "jvmtiAgentLoad", given, types);
    }

    private static void call(Object server, String name) throws Exception {
        Method method = null;
        for (Class type = server.getClass(); method == null; type = type.getSuperclass()) {
            try {
                method = type.getDeclaredMethod(name, new Class[0]);
            } catch (NoSuchMethodException inherited) {
                continue;
            }
        }
        method.setAccessible(true);
        method.invoke(server, new Object[0]);
    }

    /** Return the next line, which may take its time: the end of the file is not the end. */
    private static String nextLine() throws Exception {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        while (true) {
            int next = System.in.read();
            if (next == '\n') {
                return line.toString("UTF-8");
            } else if (next >= 0) {
                line.write(next);
            } else {
                Thread.sleep(2);
            }
        }
    }
}
