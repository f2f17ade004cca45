# No test can hang: each has a time limit, after which CTest ends it. The test "time limits of
# tests" fails if a test has none. The limits allow for a busy machine.
set(PRIVGRAD_TEST_SLOWNESS "" CACHE STRING
  "How many times as long tests may take; empty: 10 with a sanitizer, else 1 (valgrind, which nobody sees here: 50)")
set(privgrad_test_timeout 120)       # seconds
set(privgrad_slow_test_timeout 600)  # seconds, of test cases with the tag [slow]

# privgrad_limit(<seconds> <variable>): the limit in the form that CTest expects.
function(privgrad_limit seconds variable)
  set(slowness 1)
  if(PRIVGRAD_TEST_SLOWNESS)
    set(slowness ${PRIVGRAD_TEST_SLOWNESS})
  elseif("${CMAKE_CXX_FLAGS} ${CMAKE_EXE_LINKER_FLAGS}" MATCHES "-fsanitize")
    set(slowness 10)
  endif()
  math(EXPR seconds "${seconds} * ${slowness}")
  set(${variable} ${seconds} PARENT_SCOPE)
endfunction()

# privgrad_add_test(NAME <name> COMMAND <word>... [COMMAND_EXPAND_LISTS] [TIMEOUT <seconds>]): add_test, with a time limit.
function(privgrad_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "COMMAND_EXPAND_LISTS" "NAME;TIMEOUT" "COMMAND")
  if(NOT arg_NAME OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "usage: privgrad_add_test(NAME <name> COMMAND <word>... [COMMAND_EXPAND_LISTS] [TIMEOUT <seconds>])")
  endif()
  set(expand "")
  if(arg_COMMAND_EXPAND_LISTS)
    set(expand COMMAND_EXPAND_LISTS)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${privgrad_test_timeout})
  endif()
  privgrad_limit(${arg_TIMEOUT} limit)
  add_test(NAME "${arg_NAME}" COMMAND ${arg_COMMAND} ${expand})
  set_tests_properties("${arg_NAME}" PROPERTIES TIMEOUT ${limit})
endfunction()
