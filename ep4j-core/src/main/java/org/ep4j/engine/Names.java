package org.ep4j.engine;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import org.ep4j.config.BackendName;
import org.ep4j.config.EngineName;
import org.ep4j.config.WireName;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Refuses names that nothing has, as soon as a configuration sets them. A name is known if ep4j has
 * it, in any of its modules, or if an engine on the module path or class path reports it. Opening a
 * buffer refuses a known name whose module is missing.
 */
public final class Names {
  private Names() {}

  /** Returns {@code name} if it is the name of an engine. */
  public static String engine(String name) {
    return known("engine", name, EngineName.ALL, provider -> List.of(provider.name()));
  }

  /** Returns {@code name} if it is the name of a kind of wire. */
  public static String wire(String name) {
    return known("wire", name, WireName.ALL, EngineProvider::wires);
  }

  /** Returns {@code name} if it is the name of a backend. */
  public static String backend(String name) {
    return known("backend", name, BackendName.ALL, EngineProvider::backends);
  }

  private static String known(
      String field,
      String name,
      List<String> own,
      Function<EngineProvider, Collection<String>> namesOf) {
    if (own.contains(name)) {
      return name;
    }
    Set<String> added = new TreeSet<>();
    for (EngineProvider provider :
        ServiceLoader.load(EngineProvider.class, Names.class.getClassLoader())) {
      added.addAll(namesOf.apply(provider));
    }
    if (added.contains(name)) {
      return name;
    }
    added.removeAll(own);
    List<String> all = new ArrayList<>(own);
    all.addAll(added);
    throw new InvalidArgumentException(
        ErrorCode.NAME_UNKNOWN,
        field,
        "'" + name + "'",
        "one of " + String.join(", ", all),
        "correct the name, or add the module that provides it");
  }
}
