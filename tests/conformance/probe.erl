%% What OTP's own supervisor does in the cases of test_probe.py: one event a line.
%%
%%     erlc probe.erl && erl -noshell -eval 'probe:main(), halt().'
%%
%% A line is an event, whom it is about, and what is said of it.  A case begins with
%% a line "case", its number, and a variant or "-".
-module(probe).
-behaviour(supervisor).
-export([main/0, init/1, begin_life/4, life/5]).

%% ---- the children

init(Answer) -> Answer.

%% A child asks its plan, with the number of its life, how its start shall end.
begin_life(Id, Watcher, Lives, Plan) ->
    proc_lib:start_link(?MODULE, life, [Id, Watcher, Lives, Plan, self()]).

life(Id, Watcher, Lives, Plan, Supervisor) ->
    process_flag(trap_exit, true),
    counters:add(Lives, 1, 1),
    Number = counters:get(Lives, 1),
    case Plan(Number) of
        lives ->
            Watcher ! {seen, up, Id, Number},
            proc_lib:init_ack({ok, self()}),
            Reason = receive
                {'EXIT', Supervisor, Why} -> Why;
                {finish, Why} -> Why
            end,
            Watcher ! {seen, down, Id, Reason},
            exit(Reason);
        nothing_to_do ->
            proc_lib:init_ack(ignore);
        {fails, Why} ->
            proc_lib:init_ack({error, Why})
    end.

child(Id, Restart) -> child(Id, Restart, fun(_) -> lives end).

child(Id, Restart, Plan) ->
    #{id => Id, restart => Restart, shutdown => 500,
      start => {?MODULE, begin_life, [Id, self(), counters:new(1, []), Plan]}}.

starts(#{start := {_, _, [_, _, Lives, _]}}) -> counters:get(Lives, 1).

%% ---- what is done to them, and what is seen

open(Flags, Children) -> supervisor:start_link(?MODULE, {ok, {Flags, Children}}).

opened(Flags, Children) ->
    {ok, Sup} = open(Flags, Children),
    look(fun(_, _, _) -> ok end),
    Sup.

running(Sup, Id) ->
    {Id, Pid, _, _} = lists:keyfind(Id, 1, supervisor:which_children(Sup)),
    Pid.

finish(Sup, Id, Reason) -> running(Sup, Id) ! {finish, Reason}.

%% Whatever happens until nothing has for a while.
look() -> look(fun say/3).

look(Say) ->
    receive
        {seen, Event, Id, What} -> Say(Event, Id, What), look(Say)
    after 120 -> ok
    end.

states(Sup) ->
    [say(state, Id, if is_pid(Child) -> running; true -> Child end)
     || {Id, Child, _, _} <- supervisor:which_children(Sup)].

%% How a supervisor ends, if it does.
fate(Sup, Patience) ->
    receive
        {'EXIT', Sup, {shutdown, {failed_to_start_child, Id, _}}} -> say(exit, sup, {failed, Id});
        {'EXIT', Sup, Reason} -> say(exit, sup, Reason)
    after Patience -> say(alive, sup, is_process_alive(Sup))
    end.

say(Event, Id, What) -> io:format("~s ~s ~0p~n", [Event, Id, What]).

%% A case has a process of its own, which its supervisor ends with.
in_case(Number, Variant, Case) ->
    io:format("case ~p ~p~n", [Number, Variant]),
    {_, Monitor} = spawn_monitor(fun() -> process_flag(trap_exit, true), Case() end),
    receive
        {'DOWN', Monitor, process, _, normal} -> ok;
        {'DOWN', Monitor, process, _, Reason} -> say(case_failed, probe, Reason)
    end.

main() ->
    logger:set_primary_config(level, none),
    io:format("release otp ~s~n", [erlang:system_info(otp_release)]),
    in_case(1, '-', fun() ->
        Sup = opened(#{strategy => one_for_all, intensity => 5},
                     [child(a, permanent), child(b, transient), child(c, permanent),
                      child(d, temporary)]),
        supervisor:terminate_child(Sup, c), finish(Sup, b, normal), look(), states(Sup),
        finish(Sup, a, crash), look(), states(Sup) end),
    in_case(2, '-', fun() ->
        Sup = opened(#{strategy => rest_for_one, intensity => 5},
                     [child(Id, permanent) || Id <- [a, b, c, d]]),
        supervisor:terminate_child(Sup, a), look(),
        finish(Sup, b, crash), look(), states(Sup) end),
    in_case(3, '-', fun() ->
        A = child(a, permanent, fun(1) -> lives; (_) -> {fails, nope} end),
        Sup = opened(#{intensity => 3, period => 5}, [A, child(b, permanent)]),
        finish(Sup, a, crash), fate(Sup, 2000), say(starts, a, starts(A)), look() end),
    in_case(4, '-', fun() ->
        Sup = opened(#{intensity => 0, period => 5}, [child(a, permanent)]),
        finish(Sup, a, normal), fate(Sup, 2000) end),
    [in_case(5, Wait, fun() ->
        Sup = opened(#{intensity => 1, period => 1}, [child(a, permanent)]),
        at_the_start_of_a_second(),
        finish(Sup, a, crash), timer:sleep(Wait), finish(Sup, a, crash),
        fate(Sup, 300) end) || Wait <- [900, 1300, 1700, 1950, 2100]],
    in_case(6, '-', fun() ->
        {error, {shutdown, {failed_to_start_child, Id, _}}} =
            open(#{}, [child(a, permanent), child(b, temporary),
                       child(c, permanent, fun(_) -> {fails, nope} end), child(d, permanent)]),
        say(start, sup, {failed, Id}), look(),
        receive
            {'EXIT', _, {shutdown, {failed_to_start_child, Told, _}}} ->
                say(exit, sup, {failed, Told})
        after 100 -> ok
        end end),
    in_case(7, '-', fun() ->
        A = child(a, permanent, fun(1) -> lives; (_) -> nothing_to_do end),
        Sup = opened(#{intensity => 3}, [A]),
        finish(Sup, a, crash), look(), states(Sup), say(starts, a, starts(A)) end),
    in_case(8, '-', fun() ->
        Sup = opened(#{}, [child(a, permanent)]),
        [spawn(fun() -> exit(Sup, Reason) end) || Reason <- [boom, shutdown]],
        fate(Sup, 300) end),
    in_case(9, '-', fun() ->
        Slow = fun(1) -> lives; (_) -> timer:sleep(50), {fails, nope} end,
        Sup = opened(#{intensity => 1000, period => 5}, [child(a, permanent, Slow)]),
        finish(Sup, a, crash), timer:sleep(20),
        {Started, _} = supervisor:start_child(Sup, child(b, permanent)),
        say(start_child, b, Started), states(Sup),
        say(terminate_child, a, supervisor:terminate_child(Sup, a)), states(Sup) end),
    in_case(10, '-', fun() ->
        Sup = opened(#{intensity => 1, period => 5}, [child(a, permanent)]),
        finish(Sup, a, {shutdown, x}), look(),
        finish(Sup, a, normal), look(), fate(Sup, 1000) end),
    [in_case(Number, '-', fun() ->
        Second = fun(2) -> {fails, nope}; (_) -> lives end,
        Sup = opened(#{strategy => Strategy, intensity => 5},
                     [child(Id, permanent, if Id =:= Failing -> Second;
                                              true -> fun(_) -> lives end end)
                      || Id <- [a, b, c]]),
        finish(Sup, a, crash), look() end)
     || {Number, Strategy, Failing} <- [{11, one_for_all, c}, {12, rest_for_one, b}]],
    in_case(13, '-', fun() ->
        Sup = opened(#{}, [child(a, permanent), child(b, transient), child(c, temporary)]),
        exit(Sup, shutdown), look(), fate(Sup, 1000) end),
    [in_case(14, Restart, fun() ->
        Below = {ok, {#{intensity => 0}, [child(a, permanent)]}},
        Sup = opened(#{intensity => 3},
                     [#{id => sub, type => supervisor, restart => Restart,
                        start => {supervisor, start_link, [?MODULE, Below]}}]),
        Was = running(Sup, sub), finish(Was, a, crash), look(),
        case running(Sup, sub) of
            Was -> say(state, sub, the_same);
            Is when is_pid(Is) -> say(state, sub, restarted);
            State -> say(state, sub, State)
        end end) || Restart <- [transient, permanent]],
    in_case(15, '-', fun() ->
        Slow = fun(1) -> lives; (_) -> timer:sleep(50), {fails, nope} end,
        Significant = [(child(a, transient, Slow))#{significant => true},
                       (child(b, transient))#{significant => true}],
        Sup = opened(#{intensity => 1000, auto_shutdown => all_significant}, Significant),
        finish(Sup, a, crash), timer:sleep(30), finish(Sup, b, normal),
        fate(Sup, 500) end).

%% The window of OTP's supervisor is in whole seconds: where one begins matters.
at_the_start_of_a_second() ->
    Now = erlang:monotonic_time(millisecond),
    timer:sleep(1020 - (Now - 1000 * floor(Now / 1000))).
